#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/curve_plot.hpp"
#include "interventions/intervention.hpp"
#include "profiler/table_format.hpp"
#include "profiler/trace.hpp"

namespace rope::cli {

/// One pair or margin, and what it becomes under a change.
struct TracedCurve {
  TraceKeys keys;
  TracedVector original;
  std::optional<TracedVector> changed;
  double sign = 1;  ///< -1: a margin that was turned so that D(0) > 0; 0: a tie
};

/// What a run of `trace` shows.
struct TraceView {
  std::string task, example;
  int layer = 0, head = 0;
  std::int64_t window = 0;
  double softcap = 0;
  TraceRange range;
  bool margin = false, all_pairs = false;
  std::optional<Intervention> intervention;
  int threads = 0;
};

/// Curves in the order of the table; called for each time the table is written.
using CurveSource = std::function<void(const std::function<void(const TracedCurve&)>&)>;

/// distance, score (or margin), step, high, low, tail, real; then changed_... under an intervention. All
/// pairs: query, key, query_position, key_position before them.
TableSource trace_table(const TraceView& view, const CurveSource& curves);

/// The curve, what the slow pairs leave of it or its change, and where the keys really stand.
PlotScene trace_scene(const TraceView& view, const TracedCurve& curve);

/// Facts of the curve, and of its change.
std::vector<TraceFacts> facts_of(const TraceView& view, const TracedCurve& curve);
void print_trace_facts(Console& console, const TraceView& view, const TracedCurve& curve,
                       const std::vector<TraceFacts>& facts);
/// The members `trace` and `facts`.
void add_trace_facts(const TraceView& view, const TracedCurve& curve, const std::vector<TraceFacts>& facts,
                     nlohmann::ordered_json& record);

}  // namespace rope::cli
