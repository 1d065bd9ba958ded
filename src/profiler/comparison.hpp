#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/profile_file.hpp"
#include "profiler/rank_correlation.hpp"
#include "profiler/ranking.hpp"

namespace rope {

/// The tasks of a ranking, a profile or a CSV file by their susceptibility.
struct RankedSide {
  enum class Kind { kRanking, kProfile, kCsv };
  struct Task {
    std::string task;
    double w_s = 0;  ///< fraction, or per cent on both sides
    Direction direction = Direction::kNone;
  };
  Kind kind = Kind::kCsv;
  std::string path, model_name;          ///< model_name: empty for CSV
  std::vector<Task> tasks;               ///< by name, each once
  std::vector<std::string> without_w_s;  ///< by name
  // Of a profile only.
  int num_layers = 0;
  std::vector<std::pair<int, int>> selected;  ///< (layer, head), rising
};
const char* kind_name(RankedSide::Kind kind);  ///< "ranking", "profile", "csv"

/// Reads a ranking (R.json), a profile (ranked without bootstrap) or CSV with the columns task and w_s; the
/// directions of CSV are those of its w_s (theory §6). Treats the file as hostile: throws UserError.
RankedSide read_ranked_side(const std::string& path);

struct ComparedTask {
  std::string task;
  double w_s_a = 0, w_s_b = 0;
  double rank_a = 0, rank_b = 0;  ///< average ranks of falling w_s over the shared tasks
  Direction direction_a = Direction::kNone, direction_b = Direction::kNone;  ///< each over its own tasks
};

/// How far the selected heads of two profiles of one model agree.
struct HeadOverlap {
  std::int64_t selected_a = 0, selected_b = 0, common = 0;
  double jaccard = 0;  ///< common / union; NaN where both are empty
};

struct Comparison {
  std::vector<ComparedTask> tasks;                ///< shared; falling w_s of A, ties by name
  std::vector<std::string> only_in_a, only_in_b;  ///< with a w_s on that side alone, by name
  RankCorrelation correlation;
  std::int64_t same_direction = 0;  ///< shared tasks
  std::optional<HeadOverlap> heads;
  std::string no_heads;  ///< why `heads` is nothing
};

/// Compares w_s over the tasks that both sides have. Throws UserError for more than kMostRankedTasks.
Comparison compare_sides(const RankedSide& a, const RankedSide& b, const CorrelationOptions& options);

/// The text that `compare --json` prints (schemas/compare.schema.json). `files`: of A and B.
std::string comparison_json(const Comparison& comparison, const RankedSide& a, const RankedSide& b,
                            const std::pair<ProfileInput, ProfileInput>& files,
                            const CorrelationOptions& options);

}  // namespace rope
