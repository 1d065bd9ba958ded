// `trace` end to end: every number of a curve and its facts against plain sums.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "profiler/activation_set.hpp"
#include "profiler/head_job.hpp"
#include "reference/direct.hpp"
#include "reference/order_sums.hpp"
#include "spectral/band_split.hpp"
#include "support/cache_writer.hpp"
#include "support/csv_table.hpp"
#include "support/reference_input.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

using Wide = long double;

/// The curve of a vector by plain sums.
struct Plain {
  Wide score = 0, high = 0, low = 0;
};
Plain plain(const reference::Vector& v, const reference::HeadInput& in, std::int64_t m) {
  Plain p;
  for (std::size_t n = 0; n < in.omega.size(); ++n) {
    const Wide angle = static_cast<Wide>(m) * in.omega[n];
    (in.high[n] ? p.high : p.low) += v.z[n].real() * std::cos(angle) - v.z[n].imag() * std::sin(angle);
  }
  p.score = p.high + p.low + v.constant;
  return p;
}

double size_of(const reference::Vector& v) {
  double size = std::abs(v.constant);
  for (const auto& z : v.z) size += std::abs(z);
  return size;
}

reference::Vector minus(reference::Vector a, const reference::Vector& b, double sign) {
  for (std::size_t n = 0; n < a.z.size(); ++n) a.z[n] = sign * (a.z[n] - b.z[n]);
  a.constant = sign * (a.constant - b.constant);
  return a;
}

/// Columns prefix + name of a table of one curve against plain sums.
void check_curve(const CsvTable& table, const std::string& prefix, const std::string& value,
                 const reference::Vector& v, const reference::HeadInput& in) {
  const double bound = 1e-12 * size_of(v);
  double worst = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto m = static_cast<std::int64_t>(table.number(row, "distance"));
    const Plain here = plain(v, in, m), next = plain(v, in, m + 1);
    const auto off = [&](const std::string& column, Wide expected) {
      const double error = std::abs(table.number(row, prefix + column) - static_cast<double>(expected));
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    };
    off(value, here.score);
    off("step", next.score - here.score);
    off("high", here.high);
    off("low", here.low);
    off("tail", v.constant);
  }
  CHECK(worst <= bound);
}

CsvTable trace_table(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  const ProgramResult result = run_program(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return parse_table(result.out);
}

nlohmann::json trace_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const auto json = nlohmann::json::parse(result.out);
  check_schema("trace", json);
  return json;
}

void check_number(const nlohmann::json& value, double expected, double bound) {
  REQUIRE(value.is_number());
  CHECK(std::abs(value.get<double>() - expected) <= bound);
}

/// A cache, and what the reference needs of head `layer`.`head` of its first example of task "alpha".
struct Case {
  explicit Case(const CacheSpec& cache) : path(folder / "cache.h5") {
    write_cache(path, cache);
    set.emplace(std::vector<std::string>{path}, ActivationSetOptions{});
  }
  reference::HeadInput input(int layer, int head, const std::string& split = "operational") const {
    ScoringOptions options;
    options.split = spectral::parse_split(split);
    return reference_input(*set, set->tasks()[0].examples[0], layer, head, options);
  }
  std::vector<std::string> at(int layer, int head, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{path,
                                 "--task",
                                 "alpha",
                                 "--example",
                                 set->tasks()[0].examples[0].id,
                                 "--layer",
                                 std::to_string(layer),
                                 "--head",
                                 std::to_string(head)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TempDir folder;
  std::string path;
  std::optional<ActivationSet> set;
};

CacheSpec of_kind(int kind) {
  CacheSpec cache =
      random_cache({.seed = 40 + static_cast<std::uint64_t>(kind), .examples = 2, .window = 300});
  if (kind == 1) cache.model.layout = spectral::PairLayout::kInterleaved;
  if (kind == 1 || kind == 2) cache.model.key_rotation = Rotation::kPost;
  if (kind == 2) cache.model.query_rotation = Rotation::kPost;
  if (kind == 3) {  // half the head does not rotate
    std::string& config = *cache.model.config;
    config.insert(config.size() - 1, ", \"partial_rotary_factor\": 0.5");
    config.replace(config.find("llama"), 5, "phi3");
    cache.omega[0].resize(4);
    for (std::size_t n = 0; n < 4; ++n)
      cache.omega[0][n] = std::pow(10000.0, -2.0 * static_cast<double>(n) / 8.0);
  }
  return cache;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("trace: a pair's curve, its bands and its facts are those of plain sums") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    const Case c(of_kind(kind));
    const std::string split = kind == 0 ? "operational" : "omega:0.05";
    const reference::HeadInput in = c.input(1, 2, split);
    const reference::Vector v = reference::pair_vector(in, 1, 3);
    const std::vector<std::string> arguments = c.at(1, 2, {"--query", "1", "--key", "3", "--split", split});
    const CsvTable table = trace_table(arguments);
    REQUIRE(table.rows.size() == static_cast<std::size_t>(in.window));
    CHECK(table.columns ==
          std::vector<std::string>{"distance", "score", "step", "high", "low", "tail", "real"});
    check_curve(table, "", "score", v, in);
    const std::int64_t distance = in.query.position[1] - in.key.position[3];
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      CHECK(table.text(row, "distance") == std::to_string(row));
      CHECK(table.text(row, "real") == (static_cast<std::int64_t>(row) == distance ? "true" : "false"));
    }
    const auto json = trace_json(arguments);
    const auto& facts = json["facts"][0];
    const reference::WindowSums sums = reference::sum_over_window({v}, in.omega, in.window)[0];
    const double norm = static_cast<double>(reference::norm(v));
    check_number(facts["norm"], norm, 1e-14 * norm);
    check_number(facts["high_norm"], static_cast<double>(reference::norm(v, in.high)), 1e-14 * norm);
    check_number(facts["norm_share"], static_cast<double>(reference::norm(v, in.high)) / norm, 1e-14);
    check_number(facts["constant"], v.constant, 1e-14 * size_of(v));
    check_number(facts["at_zero"], sums.start, 1e-13 * size_of(v));
    check_number(facts["at_distance"], static_cast<double>(plain(v, in, distance).score), 1e-13 * size_of(v));
    check_number(facts["mean"], static_cast<double>(sums.mean), 1e-13 * size_of(v));
    check_number(facts["deviation"], static_cast<double>(std::sqrt(sums.variance)), 1e-11 * norm);
    check_number(facts["positional_score"], sums.mean_response / norm, 1e-5);
    check_number(facts["response_max"], sums.response_max / norm, 1e-5);
    check_number(facts["effective_length_virtual"], sums.effective_length, 1e-5 * sums.effective_length);
    check_number(facts["aliasing"], sums.aliasing, 1e-12);
    check_number(facts["aliasing_f16"], sums.aliasing_f16, 1e-12);
    CHECK(facts["reversal"].is_null());
    CHECK(facts["pairs"] == in.omega.size());
    CHECK(facts["high_pairs"] == std::count(in.high.begin(), in.high.end(), char{1}));
    CHECK(json["trace"]["key"]["distance"] == distance);
    CHECK(json["trace"]["window"] == in.window);
    if (kind == 3) CHECK(facts["constant"].get<double>() != 0.0);
  }
}

TEST_CASE("trace: margins turn so that D(0) > 0; both reversals; stored triplets") {
  CacheSpec cache = random_cache({.seed = 51, .examples = 1, .window = 250});
  for (TaskSpec& task : cache.tasks) {
    task.header.triplet_slots = 3;
    task.triplets = {5, 0, -1, -1, 0, 3};
  }
  const Case c(cache);
  const reference::HeadInput in = c.input(0, 3);
  int turned = 0;
  const auto check_margin = [&](std::vector<std::string> keys, std::size_t j1, std::size_t j2) {
    CAPTURE(j1);
    CAPTURE(j2);
    keys.insert(keys.begin(), {"--query", "0"});
    const reference::Vector one = reference::pair_vector(in, 0, j1),
                            other = reference::pair_vector(in, 0, j2);
    reference::Vector d = minus(one, other, 1);
    const bool back = plain(d, in, 0).score < 0;
    turned += back;
    if (back) d = minus(one, other, -1);
    const CsvTable table = trace_table(c.at(0, 3, keys));
    CHECK(table.number(0, "margin") > 0);
    check_curve(table, "", "margin", d, in);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const auto m = static_cast<std::int64_t>(row);
      CHECK((table.text(row, "real") == "true") == (m == in.query.position[0] - in.key.position[j1]));
      CHECK((table.text(row, "real2") == "true") == (m == in.query.position[0] - in.key.position[j2]));
    }
    const auto json = trace_json(c.at(0, 3, keys));
    const auto& facts = json["facts"][0];
    const reference::WindowSums sums = reference::sum_over_window({d}, in.omega, in.window)[0];
    const double sigma = static_cast<double>(std::sqrt(sums.variance));
    const double gaussian = reference::normal_cdf(-static_cast<double>(sums.mean) / sigma),
                 exact = static_cast<double>(sums.reversals) / static_cast<double>(in.window);
    check_number(facts["reversal"], gaussian, 1e-10);
    check_number(facts["exact_reversal"], exact, static_cast<double>(sums.doubtful) + 1e-15);
    check_number(facts["reversal_gap"], std::abs(gaussian - exact), 1e-10);
    CHECK(facts["tie"] == false);
    CHECK(facts["effective_length_virtual"].is_null());
    CHECK(json["trace"]["sign"] == (back ? -1 : 1));
    CHECK(json["trace"]["kind"] == "margin");
    CHECK(json["trace"]["key2"]["slot"] == j2);
  };
  check_margin({"--key", "1", "--key2", "4"}, 1, 4);
  check_margin({"--key", "4", "--key2", "1"}, 4, 1);
  check_margin({"--triplet", "0"}, 5, 0);
  check_margin({"--triplet", "2"}, 0, 3);
  CHECK(turned > 0);
  CHECK(turned < 4);
  check_failure(run_program([&] {
                  auto all = c.at(0, 3, {"--query", "0", "--triplet", "1"});
                  all.insert(all.begin(), "trace");
                  return all;
                }()),
                3, {"triplet 1", "unused"});
  // Without stored triplets: keys two by two.
  const Case plain_case(random_cache({.seed = 52, .examples = 1}));
  const auto json = trace_json(plain_case.at(0, 0, {"--query", "0", "--triplet", "1"}));
  CHECK(json["trace"]["key"]["slot"] == 2);
  CHECK(json["trace"]["key2"]["slot"] == 3);
}

TEST_CASE("trace: frozen and rescaled pairs are those of the mask, beside the curve as it is") {
  const Case c(of_kind(0));
  const reference::HeadInput in = c.input(0, 1, "operational"), mask = c.input(0, 1, "intervention");
  REQUIRE(std::count(mask.high.begin(), mask.high.end(), char{1}) > 0);
  REQUIRE(std::count(mask.high.begin(), mask.high.end(), char{0}) > 0);
  const reference::Vector original = reference::pair_vector(in, 0, 2);
  for (const std::string change : {"--freeze", "0", "0.5", "2.5"}) {
    CAPTURE(change);
    reference::HeadInput changed = in;
    std::vector<std::string> options{"--query", "0", "--key", "2"};
    if (change == "--freeze") {
      options.push_back(change);
      changed.frozen = mask.high;
    } else {
      options.insert(options.end(), {"--rescale", change});
      changed.factor.assign(in.omega.size(), 1.0);
      for (std::size_t n = 0; n < in.omega.size(); ++n)
        if (mask.high[n]) changed.factor[n] = std::stod(change);
    }
    const CsvTable table = trace_table(c.at(0, 1, options));
    check_curve(table, "", "score", original, in);
    const reference::Vector v = reference::pair_vector(changed, 0, 2);
    check_curve(table, "changed_", "score", v, in);
    const auto json = trace_json(c.at(0, 1, options));
    REQUIRE(json["facts"].size() == 2);
    const auto& facts = json["facts"][1];
    const double norm = static_cast<double>(reference::norm(v));
    check_number(facts["norm"], norm, 1e-14 * norm);
    const reference::WindowSums sums = reference::sum_over_window({v}, in.omega, in.window)[0];
    check_number(facts["mean"], static_cast<double>(sums.mean), 1e-12 * size_of(v));
    check_number(facts["positional_score"], sums.mean_response / norm, 1e-5);
    CHECK(facts["variant"] == (change == "--freeze" ? "freeze" : "rescale"));
    CHECK(json["settings"]["intervention"] == (change == "--freeze" ? "NR" : change));
  }
  // All pairs frozen: a constant, the sum of everything at distance 0.
  const auto options = c.at(0, 1, {"--query", "0", "--key", "2", "--freeze", "--mask-split", "omega:0"});
  const CsvTable still = trace_table(options);
  const double at_zero = static_cast<double>(plain(original, in, 0).score);
  for (std::size_t row = 0; row < still.rows.size(); ++row) {
    CHECK(std::abs(still.number(row, "changed_score") - at_zero) < 1e-13 * size_of(original));
    CHECK(still.number(row, "changed_step") == 0);
  }
  const auto facts = trace_json(options)["facts"][1];
  CHECK(facts["pairs"] == 0);
  CHECK(facts["positional_score"].is_null());
  CHECK(facts["deviation"] == 0);
  CHECK(facts["effective_length_virtual"] == in.window);
}

TEST_CASE("trace: all pairs, ranges, strides and forms") {
  CacheSpec cache = random_cache({.seed = 61, .examples = 1, .window = 120});
  cache.tasks[0].key_position[1] = -1;
  const Case c(cache);
  const reference::HeadInput in = c.input(1, 0);
  const CsvTable all =
      trace_table(c.at(1, 0, {"--all-pairs", "--from", "5", "--to", "100", "--stride", "7"}));
  const std::size_t rows = (100 - 5) / 7 + 1;
  REQUIRE(all.rows.size() == 2 * 5 * rows);
  std::size_t row = 0;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 6; ++j) {
      if (j == 1) continue;
      const reference::Vector v = reference::pair_vector(in, i, j);
      for (std::int64_t m = 5; m <= 100; m += 7, ++row) {
        CHECK(all.text(row, "query") == std::to_string(i));
        CHECK(all.text(row, "key") == std::to_string(j));
        CHECK(all.text(row, "query_position") == std::to_string(in.query.position[i]));
        CHECK(all.text(row, "key_position") == std::to_string(in.key.position[j]));
        CHECK(all.text(row, "distance") == std::to_string(m));
        CHECK(std::abs(all.number(row, "score") - static_cast<double>(plain(v, in, m).score)) <=
              1e-12 * size_of(v));
      }
    }
  // Beyond the window, up to the largest distance.
  const CsvTable far =
      trace_table(c.at(1, 0, {"--query", "0", "--key", "0", "--from", "16777215", "--to", "16777216"}));
  CHECK(far.rows.size() == 2);
  CHECK(std::abs(far.number(1, "score") - far.number(0, "score") - far.number(0, "step")) < 1e-12);
  // The same table in every form and for any number of threads.
  const std::vector<std::string> one = c.at(1, 0, {"--query", "0", "--key", "3"});
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = one;
    arguments.insert(arguments.begin(), "trace");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const std::string csv = with({}).out;
  for (const std::string threads : {"1", "2", "5"}) CHECK(with({"--threads", threads}).out == csv);
  CHECK(with({"-o", c.folder / "t.csv"}).exit_code == 0);
  CHECK(read_file(c.folder / "t.csv") == csv);
  CHECK(with({"-o", c.folder / "t.npy"}).exit_code == 0);
  const std::string npy = read_file(c.folder / "t.npy");
  CHECK(npy.rfind("\x93NUMPY", 0) == 0);
  CHECK(npy.find("'score'") != std::string::npos);
  CHECK(with({"--format", "npy", "-o", c.folder / "u"}).exit_code == 0);
  CHECK(read_file(c.folder / "u") == npy);
  // An output is replaced only with --force; it is no input.
  check_failure(with({"-o", c.folder / "t.csv"}), 2, {"t.csv", "exists"});
  CHECK(with({"-o", c.folder / "t.csv", "--force"}).exit_code == 0);
  check_failure(with({"-o", c.path, "--force"}), 2, {"cache.h5"});
  check_failure(with({"--svg", c.path, "--force"}), 2, {"cache.h5"});
}

TEST_CASE("trace: pictures") {
  const Case c(of_kind(0));
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = c.at(0, 1, {"--query", "0", "--key", "2"});
    arguments.insert(arguments.begin(), "trace");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const ProgramResult plot = with({"--plot", "--freeze"});
  CHECK(plot.exit_code == 0);
  for (const char* part : {"S(m), fast pairs frozen", "slow pairs and constant", "distance m, tokens",
                           "really at m", "E_2 of softmax", "as it is", "window of 300 tokens"})
    CHECK_MESSAGE(plot.out.find(part) != std::string::npos, part);
  const ProgramResult svg = with({"--svg", c.folder / "p.svg"});
  CHECK(svg.exit_code == 0);
  CHECK(svg.out.find("<svg") == std::string::npos);
  CHECK(svg.out.find("zeta") != std::string::npos);
  CHECK(read_file(c.folder / "p.svg").ends_with("</svg>\n"));
  check_failure(with({"--svg", c.folder / "p.svg"}), 2, {"p.svg", "exists"});
  CHECK(with({"--svg", "-"}).out.ends_with("</svg>\n"));
}

TEST_CASE("trace: what is not there is named, with what is") {
  CacheSpec cache = random_cache({.examples = 3});
  for (TaskSpec& task : cache.tasks) {
    task.query_position[1] = -1;
    task.key_position[4] = -1;
  }
  const Case c(cache);
  const std::string id = c.set->tasks()[0].examples[0].id;
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"trace", c.path});
    return run_program(arguments);
  };
  check_failure(run({}), 2, {"--task is missing", "alpha", "beta"});
  check_failure(run({"--task", "alpa"}), 3, {"no task", "alpa", "alpha", "beta"});
  check_failure(run({"--task", "alpha"}), 2, {"--example is missing", id});
  check_failure(run({"--task", "alpha", "--example", "none"}), 3, {"no example", "none", id});
  const auto in_example = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--task", "alpha", "--example", id});
    return run(more);
  };
  check_failure(in_example({}), 2, {"--layer is missing", "0-1"});
  check_failure(in_example({"--layer", "2"}), 3, {"no layer 2", "0-1"});
  check_failure(in_example({"--layer", "1"}), 2, {"--head is missing", "0-3"});
  check_failure(in_example({"--layer", "1", "--head", "4"}), 3, {"layer 1", "no head 4", "0-3"});
  check_failure(in_example({"--layer", "1", "--head", "-1"}), 3, {"no head -1"});
  check_failure(in_example({"--heads", "1.3", "--layer", "1"}), 2, {"--heads", "--layer"});
  check_failure(in_example({"--heads", "top:0.5"}), 2, {"--heads", "one head"});
  check_failure(in_example({"--heads", "1.0,1.1"}), 2, {"--heads", "one head"});
  const auto in_head = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--heads", "1.3"});
    return in_example(more);
  };
  check_failure(in_head({"--query", "0"}), 2, {"--key is missing", "0-3, 5"});
  check_failure(in_head({"--query", "1", "--key", "0"}), 3, {"query slot 1 is unused", "used: 0"});
  check_failure(in_head({"--query", "2", "--key", "0"}), 3, {"no query slot 2"});
  check_failure(in_head({"--key", "4"}), 3, {"key slot 4 is unused", "0-3, 5"});
  check_failure(in_head({"--key", "6"}), 3, {"no key slot 6", "6, used: 0-3, 5"});
  check_failure(in_head({"--key", "0", "--key2", "4"}), 3, {"key slot 4 is unused"});
  check_failure(in_head({"--key", "3", "--key2", "3"}), 2, {"--key2", "slot 3 twice"});
  check_failure(in_head({"--triplet", "2"}), 3, {"key slot 4 is unused"});
  check_failure(in_head({"--triplet", "3"}), 3, {"no triplet 3"});
  check_failure(in_head({"--triplet", "0", "--key", "1"}), 2, {"--triplet", "--key"});
  check_failure(in_head({"--all-pairs", "--key", "1"}), 2, {"--all-pairs"});
  check_failure(in_head({"--all-pairs", "--json"}), 2, {"--json", "one pair"});
  check_failure(in_head({"--all-pairs", "--plot"}), 2, {"--all-pairs"});
  const auto in_pair = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--key", "0"});  // the only used query needs no name
    return in_head(more);
  };
  CHECK(in_pair({}).exit_code == 0);
  check_failure(in_pair({"--stride", "0"}), 2, {"--stride", "1 or more", "0"});
  check_failure(in_pair({"--stride", "-5"}), 2, {"--stride"});
  check_failure(in_pair({"--from", "-1"}), 2, {"--from", "-1"});
  check_failure(in_pair({"--to", "16777217"}), 2, {"--to", "16777217"});
  check_failure(in_pair({"--from", "10", "--to", "9"}), 2, {"--from 10", "--to 9"});
  check_failure(in_pair({"--freeze", "--rescale", "2"}), 2, {"--freeze", "--rescale"});
  for (const std::string alpha : {"-1", "x", "nan", "inf", "NR", "20000"})
    check_failure(in_pair({"--rescale", alpha}), 2, {"--rescale"});
  check_failure(in_pair({"--freeze", "--mask-split", "half"}), 2, {"--mask-split"});
  check_failure(in_pair({"--mask-split", "prefix:1"}), 2, {"--mask-split", "--freeze"});
  const std::string config = c.folder / "config.json", before = read_file(c.path);
  std::ofstream(config) << "{}";
  for (const std::string option : {"-o", "--svg"}) {
    check_failure(in_pair({option, c.path, "--force"}), 2, {"the output is the input"});
    check_failure(in_pair({"--config", config, option, config, "--force"}), 2, {"the output is the input"});
    CHECK(in_pair({option, c.folder / ("x" + option)}).err == "wrote " + (c.folder / ("x" + option)) + "\n");
  }
  CHECK(read_file(c.path) == before);
  CHECK(read_file(config) == "{}");
  check_failure(in_pair({"--plot", "--json"}), 2, {"--plot", "--json"});
  check_failure(in_pair({"--plot", "-o", "-"}), 2, {"-o -"});
  check_failure(in_pair({"--plot", "--format", "npy"}), 2, {"--format"});
  check_failure(in_pair({"--svg", "x.svg", "-o", "x.svg"}), 2, {"same file"});
  check_failure(run_program({"trace", c.folder / "none.h5"}), 3, {"none.h5"});
  check_failure(run_program({"trace", c.path, c.path}), 2, {});
}

TEST_CASE("trace: heads without rotation, vectors that are not finite, ties") {
  CacheSpec cache = random_cache({.examples = 1, .type = ElementType::kFloat32});
  TaskSpec& task = cache.tasks[0];
  const std::size_t lanes = 16, slots = 6;
  // Key slot 1 of key head 0 in layer 0 is NaN, slot 2 equals slot 3, slot 4 is zero.
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    task.key[1 * lanes + lane] = std::nan("");
    task.key[2 * lanes + lane] = task.key[3 * lanes + lane];
    task.key[4 * lanes + lane] = 0;
  }
  CHECK(task.key.size() == 2 * 2 * slots * lanes);
  const Case c(cache);
  const auto run = [&](std::vector<std::string> more) {
    auto all = c.at(0, 0, std::move(more));
    all.insert(all.begin(), "trace");
    return run_program(all);
  };
  check_failure(run({"--query", "0", "--key", "1"}), 3, {"key slot 1", "not finite"});
  check_failure(run({"--query", "0", "--key", "0", "--key2", "1"}), 3, {"not finite"});
  const ProgramResult all = run({"--all-pairs", "--to", "3"});
  CHECK(all.exit_code == 0);
  CHECK(parse_table(all.out).rows.size() == 2 * 5 * 4);
  CHECK(all.err.find("2 of 12 pairs left out") != std::string::npos);
  const auto tie = trace_json(c.at(0, 0, {"--query", "0", "--key", "2", "--key2", "3"}));
  CHECK(tie["facts"][0]["tie"] == true);
  CHECK(tie["facts"][0]["reversal"].is_null());
  CHECK(tie["facts"][0]["exact_reversal"].is_null());
  CHECK(tie["trace"]["sign"] == 0);
  const auto zero = trace_json(c.at(0, 0, {"--query", "0", "--key", "4"}));
  CHECK(zero["facts"][0]["norm"] == 0);
  CHECK(zero["facts"][0]["positional_score"].is_null());
  CHECK(zero["facts"][0]["norm_share"].is_null());
  const auto undefined = trace_json(c.at(0, 0, {"--query", "0", "--key", "0", "--key2", "4"}));
  CHECK(undefined["facts"][0]["reversal"].is_null());
  CHECK(undefined["facts"][0]["tie"] == false);

  CacheSpec still = random_cache({.examples = 1});
  std::string& config = *still.model.config;
  config.replace(config.find("llama"), 5, "smollm3");
  config.insert(config.size() - 1, ", \"no_rope_layers\": [1, 0]");
  const Case s(still);
  check_failure(run_program([&] {
                  auto arguments = s.at(1, 0, {"--query", "0", "--key", "0"});
                  arguments.insert(arguments.begin(), "trace");
                  return arguments;
                }()),
                3, {"layer 1", "does not rotate"});
}

TEST_CASE("trace: the shipped cache") {
  const std::string shipped = ROPE_SOURCE_DIR "/examples/data/smollm2.h5";
  const ActivationSet set({shipped}, {});
  const SetTask& task = set.tasks()[0];
  const int layer = task.layers[0];
  const reference::HeadInput in = reference_input(set, task.examples[0], layer, 0, {});
  const std::vector<std::string> arguments{shipped,
                                           "--task",
                                           task.name,
                                           "--example",
                                           task.examples[0].id,
                                           "--layer",
                                           std::to_string(layer),
                                           "--head",
                                           "0",
                                           "--query",
                                           "0",
                                           "--key",
                                           "1"};
  check_curve(trace_table(arguments), "", "score", reference::pair_vector(in, 0, 1), in);
}

TEST_SUITE_END();
