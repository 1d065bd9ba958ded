#include <fstream>
#include <iostream>

#include "cli/command.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/token_lines.hpp"

namespace rope::cli {
namespace {

class SampleCommand : public Command {
 public:
  std::string name() const override { return "sample"; }
  std::string group() const override { return kInputGroup; }
  std::string summary() const override { return "chooses the token positions to capture, repeatably"; }
  std::string details() const override {
    return "Reads eligible token positions, one JSON object per line:\n\n"
           "  {\"example_id\": \"7\", \"task\": \"niah\", \"query\": [95, 96], \"key\": [3, 4, 5]}\n\n"
           "and writes the chosen ones in the same order:\n\n"
           "  {\"example_id\": \"7\", \"task\": \"niah\", \"query_position\": [95], \"key_position\": [4, "
           "3]}\n\n"
           "Positions are ordered by the SHA-256 of protocol, task/example_id, role, position and seed. The "
           "first --queries of role `query` are written rising; keys at or after the smallest of them are "
           "dropped, the first --keys of role `key` kept and re-ordered by role `pair`, so that neighbours "
           "form the triplets. The same input and options choose the same tokens everywhere; the order of "
           "the positions in a line does not matter.";
  }
  std::string example() const override {
    return "rope-profiler sample examples/tokens.jsonl -o positions.jsonl --queries 4 --keys 16";
  }

  void add_options(CLI::App& app) override {
    constexpr std::int64_t kMost = std::int64_t{1} << 24;
    app.add_option("FILE", input_, "eligible positions, one JSON object per line; - reads standard input")
        ->type_name("")
        ->required();
    add_output_options(app, output_, "the chosen positions", true);
    app.add_option("--queries", options_.queries, "query tokens per example")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, kMost))
        ->capture_default_str();
    app.add_option("--keys", options_.keys, "key tokens per example")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, kMost))
        ->capture_default_str();
    app.add_option("--protocol", options_.protocol, "name of the protocol, hashed with every position")
        ->type_name("TEXT")
        ->capture_default_str();
    app.add_option("--seed", options_.seed, "seed, hashed with every position")
        ->type_name("N")
        ->check(check_seed)
        ->capture_default_str();
  }

  int run(Console& console, int) override {
    std::ifstream file;
    if (input_ != "-") {
      file.open(input_, std::ios::binary);
      if (!file) throw UserError(input_ + ": cannot be opened", "is the name right, and may you read it?");
    }
    std::istream& from = input_ == "-" ? std::cin : file;
    require_output_is_no_input(output_.path, {input_});
    Output output(console, output_);
    TokenLineReader reader(from, input_ == "-" ? "standard input" : input_);
    std::int64_t examples = 0, short_ones = 0;
    std::string first_short;
    while (const auto example = reader.next()) {
      const TokenChoice choice = choose_tokens(*example, options_);
      output.stream() << token_choice_line(*example, choice) << '\n';
      ++examples;
      if (static_cast<std::int64_t>(choice.query.size()) == options_.queries &&
          static_cast<std::int64_t>(choice.key.size()) == options_.keys)
        continue;
      if (short_ones++ == 0)
        first_short = example->task + "/" + example->example_id + " on line " + std::to_string(reader.line());
    }
    if (examples == 0) throw UserError(input_ + ": expected at least one example, found none");
    output.commit();
    if (short_ones > 0)
      console.warning(std::to_string(short_ones) + " of " + std::to_string(examples) +
                      " examples have fewer tokens than asked for, first " + first_short);
    return 0;
  }

 private:
  std::string input_;
  OutputOptions output_;
  TokenSampleOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_sample() { return std::make_unique<SampleCommand>(); }

}  // namespace rope::cli
