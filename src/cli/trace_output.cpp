#include "cli/trace_output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/clean_text.hpp"
#include "profiler/json_text.hpp"

namespace rope::cli {
namespace {

using Json = nlohmann::ordered_json;
using spectral::TracePoint;

/// "frozen", "x 0.5".
std::string change_words(const Intervention& intervention) {
  return intervention.operation == Operation::kFreeze ? "fast pairs frozen"
                                                      : "fast pairs x " + exact_number(intervention.alpha);
}

const char* symbol(const TraceView& view) { return view.margin ? "D" : "S"; }

/// The curve's points in order: sink(m, original, changed).
void for_points(const TraceView& view, const TracedCurve& curve, const TraceSink& sink) {
  const spectral::ScoreTrace original(curve.original.vector);
  std::optional<spectral::ScoreTrace> changed;
  if (curve.changed) changed.emplace(curve.changed->vector);
  trace_range(original, changed ? &*changed : nullptr, view.range, view.threads, sink);
}

/// One fact: its name in JSON, its words on a terminal, its value, and when it is shown.
struct Fact {
  const char* name;
  const char* words;
  double TraceFacts::*value;
  bool pairs, margins;
};
constexpr Fact kFacts[] = {
    {"norm", "U, norm of the rotating part", &TraceFacts::norm, true, true},
    {"high_norm", "U_H, norm of the fast pairs", &TraceFacts::high_norm, true, true},
    {"norm_share", "r_H = U_H / U", &TraceFacts::norm_share, true, true},
    {"constant", "c_0, what does not rotate", &TraceFacts::constant, true, true},
    {"at_zero", "at distance 0", &TraceFacts::at_zero, true, true},
    {"at_distance", "at the real distance", &TraceFacts::at_distance, true, false},
    {"mean", "mu, mean over the window", &TraceFacts::mean, true, true},
    {"deviation", "sigma, standard deviation", &TraceFacts::deviation, true, true},
    {"positional_score", "P, mean |step| / U", &TraceFacts::positional, true, true},
    {"response_max", "zeta, largest |step| / U", &TraceFacts::response_max, true, true},
    {"effective_length_virtual", "E_2 of softmax S(m), tokens", &TraceFacts::effective_length, true, false},
    {"aliasing", "neighbours equal in bfloat16", &TraceFacts::aliasing, true, false},
    {"aliasing_f16", "neighbours equal in float16", &TraceFacts::aliasing_f16, true, false},
    {"reversal", "reversal, Gaussian", &TraceFacts::reversal, false, true},
    {"exact_reversal", "reversal, exact", &TraceFacts::exact_reversal, false, true},
    {"reversal_gap", "gap of the two", &TraceFacts::reversal_gap, false, true},
};

Json slot_json(std::int64_t slot, std::int64_t position, std::optional<std::int64_t> distance) {
  Json json = {{"slot", slot}, {"position", position}};
  if (distance) json["distance"] = *distance;
  return json;
}

}  // namespace

TableSource trace_table(const TraceView& view, const CurveSource& curves) {
  TableSource table;
  const auto integer = [&](const char* name) { table.columns.push_back({name, CellType::kInteger}); };
  const auto real = [&](const std::string& name) { table.columns.push_back({name, CellType::kReal}); };
  if (view.all_pairs)
    for (const char* name : {"query", "key", "query_position", "key_position"}) integer(name);
  integer("distance");
  const std::string value = view.margin ? "margin" : "score";
  for (const std::string prefix : {"", "changed_"}) {
    if (!prefix.empty() && !view.intervention) continue;
    for (const std::string& name :
         {value, std::string("step"), std::string("high"), std::string("low"), std::string("tail")})
      real(prefix + name);
    if (!prefix.empty()) continue;
    table.columns.push_back({"real", CellType::kBool});
    if (view.margin) table.columns.push_back({"real2", CellType::kBool});
  }
  table.rows = [view, curves](const RowSink& sink) {
    curves([&](const TracedCurve& curve) {
      std::vector<Cell> cells;
      const auto add_point = [&](const TracePoint& point, double tail) {
        for (const double number : {point.score, point.step, point.high, point.low, tail})
          cells.emplace_back(number);
      };
      for_points(view, curve, [&](std::int64_t m, const TracePoint& original, const TracePoint& changed) {
        cells.clear();
        if (view.all_pairs)
          for (const std::int64_t number : {curve.keys.query_slot, curve.keys.key_slot,
                                            curve.keys.query_position, curve.keys.key_position})
            cells.emplace_back(number);
        cells.emplace_back(m);
        add_point(original, curve.original.vector.constant);
        cells.emplace_back(m == curve.keys.distance());
        if (view.margin) cells.emplace_back(m == curve.keys.distance2());
        if (curve.changed) add_point(changed, curve.changed->vector.constant);
        sink(cells);
      });
    });
  };
  return table;
}

PlotScene trace_scene(const TraceView& view, const TracedCurve& curve) {
  PlotScene scene;
  const TraceKeys& keys = curve.keys;
  scene.title = fmt::format("{}(m) of task {}, example {}, layer {}, head {}, query {}, {}", symbol(view),
                            view.task, view.example, view.layer, view.head, keys.query_slot,
                            view.margin ? fmt::format("keys {} and {}", keys.key_slot, keys.key2_slot)
                                        : fmt::format("key {}", keys.key_slot));
  scene.x_label = "distance m, tokens";
  scene.y_label = view.margin ? "margin D(m), logits" : "score S(m), logits";
  scene.first = static_cast<double>(view.range.first);
  const std::int64_t rows = view.range.rows();
  scene.last = static_cast<double>(view.range.first + (rows - 1) * view.range.stride);
  scene.curves.emplace_back(fmt::format("{}(m)", symbol(view)), rows);
  const auto& high = curve.original.vector.high;
  const bool bands = std::find(high.begin(), high.end(), char{1}) != high.end();
  if (curve.changed)
    scene.curves.emplace_back(fmt::format("{}(m), {}", symbol(view), change_words(*view.intervention)), rows);
  if (bands) scene.curves.emplace_back("without the fast pairs H: slow pairs and constant", rows);
  for_points(view, curve, [&](std::int64_t, const TracePoint& original, const TracePoint& changed) {
    scene.curves[0].add(original.score);
    if (curve.changed) scene.curves[1].add(changed.score);
    if (bands) scene.curves.back().add(original.low + curve.original.vector.constant);
  });
  const auto mark = [&](std::int64_t m, const std::string& what) {
    scene.marks.push_back({static_cast<double>(m), fmt::format("{}at m = {}", what, m)});
  };
  if (view.margin && keys.distance() != keys.distance2()) {
    mark(keys.distance(), fmt::format("key {} ", keys.key_slot));
    mark(keys.distance2(), fmt::format("key {} ", keys.key2_slot));
  } else {
    mark(keys.distance(), "really ");
  }
  return scene;
}

std::vector<TraceFacts> facts_of(const TraceView& view, const TracedCurve& curve) {
  const auto facts = [&](const TracedVector& traced) {
    return trace_facts(traced, view.window, view.margin, curve.keys.distance(), view.softcap);
  };
  std::vector<TraceFacts> all{facts(curve.original)};
  if (curve.changed) all.push_back(facts(*curve.changed));
  return all;
}

void print_trace_facts(Console& console, const TraceView& view, const TracedCurve& curve,
                       const std::vector<TraceFacts>& facts) {
  const TraceKeys& keys = curve.keys;
  std::ostream& out = console.out();
  out << fmt::format("task {}, example {}, layer {}, head {}: query {} at position {}, key {} at {} (m = {})",
                     printable(view.task), printable(view.example), view.layer, view.head, keys.query_slot,
                     keys.query_position, keys.key_slot, keys.key_position, keys.distance());
  if (view.margin)
    out << fmt::format("\nagainst key {} at {} (m = {}){}", keys.key2_slot, keys.key2_position,
                       keys.distance2(),
                       curve.sign < 0    ? "; turned, so that D(0) > 0"
                       : curve.sign == 0 ? "; a tie at distance 0"
                                         : "");
  out << fmt::format("\nwindow of {} tokens, {} rotating pairs, {} of them fast\n\n", view.window,
                     facts[0].pairs, facts[0].high_pairs);
  std::vector<Table::Column> columns{{view.margin ? "margin D(m)" : "score S(m)", false}, {"as it is", true}};
  if (facts.size() > 1) columns.push_back({change_words(*view.intervention), true});
  Table table(columns);
  for (const Fact& fact : kFacts) {
    if (!(view.margin ? fact.margins : fact.pairs)) continue;
    std::vector<std::string> cells{fact.words};
    for (const TraceFacts& one : facts) cells.push_back(short_number(one.*fact.value, 6));
    table.row(cells);
  }
  table.print(console, out);
}

void add_trace_facts(const TraceView& view, const TracedCurve& curve, const std::vector<TraceFacts>& facts,
                     Json& record) {
  const TraceKeys& keys = curve.keys;
  record["trace"] = {
      {"kind", view.margin ? "margin" : "pair"},
      {"task", view.task},
      {"example_id", view.example},
      {"layer", view.layer},
      {"head", view.head},
      {"query", slot_json(keys.query_slot, keys.query_position, std::nullopt)},
      {"key", slot_json(keys.key_slot, keys.key_position, keys.distance())},
      {"key2", view.margin ? slot_json(keys.key2_slot, keys.key2_position, keys.distance2()) : Json(nullptr)},
      {"sign", view.margin ? Json(curve.sign) : Json(nullptr)},
      {"window", view.window},
      {"softcap", view.softcap > 0 ? Json(view.softcap) : Json(nullptr)},
      {"from", view.range.first},
      {"to", view.range.last},
      {"stride", view.range.stride},
      {"rows", view.range.rows()}};
  Json rows = Json::array();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    Json row = {{"variant", i == 0 ? "original" : operation_name(view.intervention->operation)}};
    row["alpha"] = i == 1 && view.intervention->operation == Operation::kRescale
                       ? Json(view.intervention->alpha)
                       : Json(nullptr);
    row["pairs"] = facts[i].pairs;
    row["high_pairs"] = facts[i].high_pairs;
    for (const Fact& fact : kFacts) row[fact.name] = json_number(facts[i].*fact.value);
    row["tie"] = view.margin ? Json(facts[i].tie) : Json(nullptr);
    rows.push_back(std::move(row));
  }
  record["facts"] = std::move(rows);
}

}  // namespace rope::cli
