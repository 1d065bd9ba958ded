#include "cli/generate.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "cli/help.hpp"
#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("cli");

using namespace rope::test;

namespace {

/// A command that has one option of every sort; it is only documented, never run.
class SampleCommand : public rope::cli::Command {
 public:
  std::string name() const override { return "paint"; }
  std::string summary() const override { return "paints [a wall]: it's done"; }
  std::string details() const override { return "First line.\n\n  kept | as it is\n\n.Last - paragraph."; }
  std::string example() const override { return "rope-profiler paint wall.h5 -o out.txt"; }
  void add_options(CLI::App& app) override {
    app.add_option("FILE", files_, "walls to paint")->required()->expected(1, 99)->type_name("");
    app.add_option("-o,--output", output_, "where to")->type_name("FILE")->required();
    app.add_option("--colour", colour_, "which one")
        ->check(CLI::IsMember({"red", "green"}))
        ->capture_default_str();
    app.add_option("--heads", heads_, "which heads")->type_name("all|top:F|LAYER.HEAD,...");
    app.add_option("--coats", coats_, "how many");
    app.add_flag("--fast", fast_, "hurry");
    app.add_option("--secret", heads_, "not shown")->group("");
  }
  int run(rope::cli::Console&, int) override { return 0; }

 private:
  std::vector<std::string> files_;
  std::string output_, colour_ = "red", heads_;
  int coats_ = 1;
  bool fast_ = false;
};

std::vector<std::unique_ptr<rope::cli::CommandApp>> sample_commands() {
  std::vector<std::unique_ptr<rope::cli::CommandApp>> commands;
  commands.push_back(std::make_unique<rope::cli::CommandApp>(std::make_unique<SampleCommand>()));
  return commands;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Output of a shell script that is given to `shell`.
std::string shell_output(const std::string& shell, const std::string& script) {
  const TempDir folder;
  std::ofstream(folder / "script") << script;
  const std::string command =
      "cd '" + folder.path().string() + "' && " + shell + " ./script > out 2>&1 < /dev/null";
  const int status = std::system(command.c_str());
  const std::string out = read_file(folder / "out");
  CHECK_MESSAGE(status == 0, out);
  return out;
}

/// What bash would offer for the words typed so far, one per line; the last word is being typed.
std::string bash_offers(const std::string& completion, const std::vector<std::string>& words) {
  std::string script = completion + "\ntouch 'my cache.h5' other.txt; mkdir folder\nCOMP_WORDS=(";
  for (const std::string& word : words) script += " '" + word + "'";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
            "\n_rope_profiler\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  return shell_output("bash", script);
}

}  // namespace

TEST_CASE("the committed command reference is fresh") {
  const std::string fresh = run_program({"--generate", "markdown"}).out;
  const std::string committed = read_file(ROPE_SOURCE_DIR "/src/cli/REFERENCE.md");
  CHECK_MESSAGE(fresh == committed,
                "write it anew: rope-profiler --generate markdown > src/cli/REFERENCE.md");
}

TEST_CASE("an unknown kind of document is a usage error") {
  check_failure(run_program({"--generate", "bsh"}), 2, {"unknown kind 'bsh'"});
  check_failure(run_program({"--generate"}), 2, {"--generate"});
}

TEST_CASE("help shows values, defaults and required arguments") {
  const std::string help = rope::cli::command_help(*sample_commands()[0], 80);
  CHECK(has(help, "Usage: rope-profiler paint [options] FILE... -o FILE\n"));
  CHECK(has(help, "  --colour red|green "));
  CHECK(has(help, "which one [default: red]"));
  CHECK(has(help, "  --coats N "));
  CHECK(has(help, "\n  kept | as it is\n"));
  CHECK(!has(help, "--secret"));
}

TEST_CASE("the manual escapes what troff would act on") {
  const std::string page = rope::cli::man_page(sample_commands());
  CHECK(has(page, "\n\\&.Last \\- paragraph.\n"));
  CHECK(has(page, ".nf\n  kept | as it is\n.fi\n"));
  CHECK(has(page, ".B \\-\\-colour red|green\nwhich one [default: red]\n"));
  CHECK(has(page, ".SH \"EXIT STATUS\"\n.TP\n.B 0\ndone\n"));
}

TEST_CASE("the reference escapes bars in tables") {
  const std::string text = rope::cli::markdown_reference(sample_commands());
  CHECK(has(text, "| `--colour red\\|green` | which one [default: red] |\n"));
  CHECK(has(text, "```\n  kept | as it is\n```\n"));
}

TEST_CASE("bash completes commands, options, choices and files") {
  const std::string script = rope::cli::bash_completion(sample_commands());
  const auto offers = [&](const std::vector<std::string>& words) { return bash_offers(script, words); };
  CHECK(offers({"rope-profiler", ""}) == "paint\n--help\n--version\n");
  CHECK(offers({"rope-profiler", "pa"}) == "paint\n");
  CHECK(offers({"rope-profiler", "paint", "--co"}) == "--colour\n--coats\n");
  CHECK(offers({"rope-profiler", "paint", "--colour", ""}) == "red\ngreen\n");
  CHECK(offers({"rope-profiler", "paint", "--colour", "=", "g"}) == "green\n");
  CHECK(offers({"rope-profiler", "paint", "--colour", "="}) == "red\ngreen\n");
  CHECK(offers({"rope-profiler", "paint", "--heads", ""}) == "all\n");
  CHECK(offers({"rope-profiler", "paint", "--coats", ""}) == "\n");
  CHECK(offers({"rope-profiler", "paint", "-o", "my"}) == "my cache.h5\n");
  CHECK(offers({"rope-profiler", "paint", "ot"}) == "other.txt\n");
  CHECK(offers({"rope-profiler", "paint", "--secr"}) == "\n");
}

TEST_CASE("the real bash completion knows every command and its options") {
  const std::string script = run_program({"--generate", "bash"}).out;
  std::string names;
  for (const auto& app : rope::cli::all_command_apps()) {
    const std::string name = app->command().name();
    names += name + "\n";
    std::string options;
    for (const auto& view : rope::cli::option_views(app->app()))
      for (const std::string& option : view.names)
        if (option.rfind("--", 0) == 0) options += option + "\n";
    CHECK(bash_offers(script, {"rope-profiler", name, "--"}) == options);
  }
  CHECK(bash_offers(script, {"rope-profiler", ""}) == names + "--help\n--version\n");
}

TEST_CASE("zsh reads its completion") {
  if (!is_there("zsh")) {
    MESSAGE("left out: no zsh here");
    return;
  }
  const std::string start = "autoload -U compinit && compinit -u -D\n";
  CHECK(shell_output("zsh -f", start + rope::cli::zsh_completion(sample_commands())) == "");
  CHECK(shell_output("zsh -f", start + run_program({"--generate", "zsh"}).out) == "");
}

TEST_CASE("fish completes commands, options and choices") {
  if (!is_there("fish")) {
    MESSAGE("left out: no fish here");
    return;
  }
  const auto offers = [](const std::string& line) {
    return shell_output("fish --no-config",
                        rope::cli::fish_completion(sample_commands()) + "complete -C '" + line + "'\n");
  };
  CHECK(has(offers("rope-profiler "), "paint\tpaints [a wall]: it's done\n"));
  CHECK(has(offers("rope-profiler paint --colour "), "red\twhich one\n"));
  CHECK(has(offers("rope-profiler paint --co"), "--coats\thow many\n"));
}

TEST_SUITE_END();
