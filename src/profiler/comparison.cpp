#include "profiler/comparison.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>

#include "profiler/clean_text.hpp"
#include "profiler/csv_reader.hpp"
#include "profiler/error.hpp"
#include "profiler/regular_file.hpp"
#include "profiler/result_json.hpp"

namespace rope {
namespace {

using Kind = RankedSide::Kind;

/// By the first byte: '{' begins a ranking, the HDF5 signature or NUL (no text) a profile.
Kind kind_of(const std::string& path) {
  require_regular_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError(path + ": cannot open", "check the file's name");
  int c = in.get();
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = in.get();
  if (in.bad()) throw UserError(path + ": cannot be read", "is it a file?");
  return c == '{' ? Kind::kRanking : c == 0x89 || c == 0 ? Kind::kProfile : Kind::kCsv;
}

void add_task(RankedSide& side, const std::string& where, const RankedSide::Task& task) {
  if (side.tasks.size() >= kMostRankedTasks)
    throw UserError(where + ": expected at most 10,000 tasks, found more");
  side.tasks.push_back(task);
}

void take_ranking(const Ranking& ranking, RankedSide& side) {
  side.model_name = ranking.model_name;
  for (const RankedTask& task : ranking.tasks)
    add_task(side, side.path, {task.task, task.w_s, task.direction});
  side.without_w_s = ranking.unranked;
}

void take_profile(RankedSide& side) {
  const ProfileReader profile(side.path);
  BootstrapOptions options;
  options.resamples = 0;
  take_ranking(rank_profile(profile, options), side);
  side.num_layers = profile.header().num_layers;
  const auto& heads = profile.header().heads;
  for (std::size_t n = 0; n < heads.size(); ++n)
    if (profile.selection().selected[n] != 0) side.selected.emplace_back(heads[n].layer, heads[n].head);
  std::sort(side.selected.begin(), side.selected.end());
}

double parse_w_s(const CsvTableReader& rows, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value >= 0 && value <= 100) return value;
  throw UserError(rows.where() +
                  ": expected a fraction from 0 to 1, a percentage up to 100, or nothing in \"w_s\", found " +
                  quoted(text));
}

void take_csv(RankedSide& side) {
  CsvTableReader rows(side.path);
  const std::string hint = "compare reads rankings, profiles, and CSV with the columns task and w_s";
  const std::size_t task = rows.require("task", hint), w_s = rows.require("w_s", hint);
  while (rows.next()) {
    const std::string& name = rows.field(task);
    if (name.empty() || !is_utf8(name) || name.find('\0') != std::string::npos)
      throw UserError(rows.where() + ": expected UTF-8 text without NUL in \"task\", found " +
                      (name.empty() ? "none" : quoted(name)));
    if (rows.field(w_s).empty())
      side.without_w_s.push_back(name);
    else
      add_task(side, rows.where(), {name, parse_w_s(rows, rows.field(w_s)), Direction::kNone});
  }
  std::vector<double> values;
  for (const auto& t : side.tasks) values.push_back(t.w_s);
  const std::vector<Direction> own = directions(values);
  for (std::size_t i = 0; i < own.size(); ++i) side.tasks[i].direction = own[i];
}

void sort_and_refuse_doubles(RankedSide& side) {
  const auto by_name = [](const auto& x, const auto& y) { return x.task < y.task; };
  std::sort(side.tasks.begin(), side.tasks.end(), by_name);
  std::sort(side.without_w_s.begin(), side.without_w_s.end());
  std::vector<std::string> names = side.without_w_s;
  for (const auto& t : side.tasks) names.push_back(t.task);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw UserError(side.path + ": expected every task once, found " + quoted(*twice) + " twice",
                    "a file of several models has to be split");
}

void add_heads(const RankedSide& a, const RankedSide& b, Comparison& result) {
  for (const RankedSide* side : {&a, &b})
    if (side->kind != Kind::kProfile) {
      result.no_heads = quoted(side->path) + " is no profile, and only profiles hold selected heads";
      return;
    }
  if (a.model_name != b.model_name || a.num_layers != b.num_layers) {
    result.no_heads = "the models differ: " + quoted(a.model_name) + " of " + std::to_string(a.num_layers) +
                      " layers and " + quoted(b.model_name) + " of " + std::to_string(b.num_layers);
    return;
  }
  std::vector<std::pair<int, int>> common;
  std::set_intersection(a.selected.begin(), a.selected.end(), b.selected.begin(), b.selected.end(),
                        std::back_inserter(common));
  HeadOverlap overlap;
  overlap.selected_a = static_cast<std::int64_t>(a.selected.size());
  overlap.selected_b = static_cast<std::int64_t>(b.selected.size());
  overlap.common = static_cast<std::int64_t>(common.size());
  const std::int64_t either = overlap.selected_a + overlap.selected_b - overlap.common;
  overlap.jaccard = either > 0 ? static_cast<double>(overlap.common) / static_cast<double>(either)
                               : std::numeric_limits<double>::quiet_NaN();
  result.heads = overlap;
}

}  // namespace

const char* kind_name(RankedSide::Kind kind) {
  return kind == Kind::kRanking ? "ranking" : kind == Kind::kProfile ? "profile" : "csv";
}

RankedSide read_ranked_side(const std::string& path) {
  RankedSide side;
  side.path = path;
  side.kind = kind_of(path);
  if (side.kind == Kind::kRanking) take_ranking(read_ranking_json(path), side);
  if (side.kind == Kind::kProfile) take_profile(side);
  if (side.kind == Kind::kCsv) take_csv(side);
  sort_and_refuse_doubles(side);
  return side;
}

namespace {

bool in_per_cent(const RankedSide& side) {
  return std::any_of(side.tasks.begin(), side.tasks.end(),
                     [](const RankedSide::Task& task) { return task.w_s > 1; });
}

void require_one_unit(const RankedSide& a, const RankedSide& b) {
  if (a.tasks.empty() || b.tasks.empty() || in_per_cent(a) == in_per_cent(b)) return;
  const RankedSide &per_cent = in_per_cent(a) ? a : b, &other = in_per_cent(a) ? b : a;
  throw UserError(per_cent.path + ": w_s is in per cent here and in fractions in " + other.path,
                  "give both in fractions, or both in per cent");
}

}  // namespace

Comparison compare_sides(const RankedSide& a, const RankedSide& b, const CorrelationOptions& options) {
  require_one_unit(a, b);
  Comparison result;
  std::map<std::string, const RankedSide::Task*> of_b;
  for (const auto& task : b.tasks) of_b.emplace(task.task, &task);
  std::vector<double> w_s_a, w_s_b;
  for (const auto& task : a.tasks) {  // by name: the order that the random numbers belong to
    const auto found = of_b.find(task.task);
    if (found == of_b.end()) {
      result.only_in_a.push_back(task.task);
      continue;
    }
    const auto& other = *found->second;
    result.tasks.push_back({task.task, task.w_s, other.w_s, 0, 0, task.direction, other.direction});
    result.same_direction += task.direction == other.direction;
    w_s_a.push_back(task.w_s);
    w_s_b.push_back(other.w_s);
    of_b.erase(found);
  }
  for (const auto& [name, task] : of_b) result.only_in_b.push_back(name);
  result.correlation = rank_correlation(w_s_a, w_s_b, options);
  const std::vector<double> rank_a = average_ranks(w_s_a), rank_b = average_ranks(w_s_b);
  for (std::size_t i = 0; i < result.tasks.size(); ++i) {
    result.tasks[i].rank_a = rank_a[i];
    result.tasks[i].rank_b = rank_b[i];
  }
  std::stable_sort(result.tasks.begin(), result.tasks.end(),
                   [](const ComparedTask& x, const ComparedTask& y) { return x.w_s_a > y.w_s_a; });
  add_heads(a, b, result);
  return result;
}

}  // namespace rope
