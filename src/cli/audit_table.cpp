#include "cli/audit_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "profiler/table_format.hpp"

namespace rope::cli {
namespace {

std::string range(std::int64_t low, std::int64_t high) {
  return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
}

std::string fixed(double value, int digits = 4) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

/// Four digits, but no ratio below 1 is shown as 1.
std::string ratio(double value) {
  if (std::isnan(value)) return "-";
  return value < 1 && value > 0.99994 ? fmt::format("1 - {:.1g}", 1 - value) : fmt::format("{:.4f}", value);
}

void print_inequalities(Console& console, const AuditResult& result) {
  const EnvelopeTally& t = result.all.tally;
  const AuditStatistics& s = result.all.statistics;
  const BandTally& band = t.band;
  const std::int64_t floors = t.pairs - t.without_floor;
  const double nan = std::nan("");
  Table table({{"inequality"},
               {"pairs", true},
               {"hold", true},
               {"violations", true},
               {"median used", true},
               {"most used", true}});
  const auto row = [&](const char* name, std::int64_t pairs, std::int64_t hold, const std::string& violations,
                       double median, double most) {
    table.row({name, std::to_string(pairs), std::to_string(hold), violations, ratio(pairs > 0 ? median : nan),
               ratio(pairs > 0 ? most : nan)},
              violations != "0" && violations != "-" ? Style::kRed : Style::kPlain);
  };
  row("zeta <= T", t.pairs, t.pairs - t.violations_response, std::to_string(t.violations_response),
      s.median_response_ratio, t.largest_response_ratio);
  row("f_pos <= r_H", floors, floors - t.violations_norm_floor, std::to_string(t.violations_norm_floor),
      s.median_norm_floor_ratio, t.largest_norm_floor_ratio);
  row("|mean X_H| <= eps U_H", band.vectors, band.mean_holds, "-", nan, band.mean_share);
  row("|var X_H - U_H^2/2| <= eps U_H^2", band.vectors, band.variance_holds, "-", nan, band.variance_share);
  table.print(console, console.out());
}

/// What fits into the table; --json lists all.
std::string short_ranges(const std::vector<int>& layers) {
  const std::string text = number_ranges(layers);
  return text.size() <= 24 ? text : fmt::format("{} layers", layers.size());
}

void print_grids(Console& console, const AuditResult& result) {
  Table table({{"layers"},
               {"kind"},
               {"window M", true},
               {"turning", true},
               {"|H|", true},
               {"M delta", true},
               {"needed", true},
               {"largest prefix", true},
               {"Prop. 1"}});
  for (const AuditLayers& g : result.grids)
    table.row({short_ranges(g.layers), g.kind, range(g.window_min, g.window_max),
               range(g.pairs_min, g.pairs_max), range(g.high_min, g.high_max), fixed(g.scaled_min, 1),
               fixed(result.needed, 1), range(g.prefix_min, g.prefix_max),
               g.proved          ? "proved"
               : g.satisfied     ? "separated, C < 2 pi"
               : g.high_max == 0 ? "H is empty"
                                 : "not claimed"});
  table.print(console, console.out());
}

void print_groups(Console& console, const std::vector<AuditGroup>& groups, bool heads) {
  std::vector<Table::Column> columns{{"layer", true}};
  if (heads) columns.push_back({"head", true});
  for (const char* title :
       {"pairs", "violations", "zeta/T", "f_pos/r_H", "rho(r_H,zeta)", "rho(r_H,T)", "mean used", "var used"})
    columns.push_back({title, true});
  Table table(columns);
  for (const AuditGroup& group : groups) {
    const EnvelopeTally& t = group.tally;
    const std::int64_t violations = t.violations_response + t.violations_norm_floor + t.band.violations;
    std::vector<std::string> cells{std::to_string(group.layer)};
    if (heads) cells.push_back(std::to_string(group.head));
    const double nan = std::nan("");
    for (const std::string& cell :
         {std::to_string(t.pairs), std::to_string(violations), fixed(group.statistics.median_response_ratio),
          fixed(group.statistics.median_norm_floor_ratio), fixed(group.statistics.spearman_share_response),
          fixed(group.statistics.spearman_share_envelope),
          fixed(t.band.vectors > 0 ? t.band.mean_share : nan),
          fixed(t.band.vectors > 0 ? t.band.variance_share : nan)})
      cells.push_back(cell);
    table.row(std::move(cells), violations > 0 ? Style::kRed : Style::kPlain);
  }
  table.print(console, console.out());
}

std::string place(const NamedPair& pair) {
  return fmt::format("task {}, example {}, layer {}, head {}, query {} (at {}), key {} (at {})",
                     printable(pair.task), printable(pair.example_id), pair.layer, pair.head, pair.query_slot,
                     pair.query_position, pair.key_slot, pair.key_position);
}

void print_remarks(Console& console, const AuditResult& result) {
  std::ostream& out = console.out();
  const EnvelopeTally& t = result.all.tally;
  const AuditStatistics& s = result.all.statistics;
  if (s.share_varies)
    out << fmt::format("Spearman of r_H with zeta {}, with T {}\n", fixed(s.spearman_share_response),
                       fixed(s.spearman_share_envelope));
  else if (t.pairs > 0)
    out << (t.without_floor == t.pairs ? "r_H is 0 for all pairs: no f_pos, no rank correlation, no bins\n"
                                       : "r_H is the same for all pairs: no rank correlation, no bins\n");
  if (!result.exact)
    out << fmt::format("medians, ranks and bins come from a sample of {} pairs: ranks within {:.2g} of all\n",
                       result.sampled, result.rank_error);
  if (result.nearest.values.pair >= 0)
    out << fmt::format("nearest to its envelope, zeta/T = {}:\n  {}\n", ratio(result.nearest.values.ratio()),
                       place(result.nearest));
  out << fmt::format(
      "rounding allowed: {:.1e} of T in zeta, {:.1e} of T/kappa_H in f_pos; {} of {} steps in float64\n",
      result.rounding_response, result.rounding_norm_floor, result.evaluated_again, t.pairs);
  if (const std::int64_t left = result.undefined + result.non_finite + result.without_distance; left > 0)
    out << fmt::format("of {} pairs left out: {} with U = 0, {} non-finite, {} with a window of one token\n",
                       result.all_pairs, result.undefined, result.non_finite, result.without_distance);
  if (t.without_floor > 0 && s.share_varies)
    out << fmt::format("{} pairs have U_H = 0, so no f_pos\n", t.without_floor);
}

}  // namespace

void print_audit(Console& console, const AuditResult& result, const std::string& title, AuditRows rows) {
  std::ostream& out = console.out();
  out << title << '\n';
  if (result.all.tally.pairs == 0) {
    out << fmt::format(
        "nothing to audit: of {} pairs {} have U = 0, {} are non-finite, {} have a window of one "
        "token\n",
        result.all_pairs, result.undefined, result.non_finite, result.without_distance);
    return;
  }
  print_inequalities(console, result);
  print_grids(console, result);
  print_remarks(console, result);
  if (rows == AuditRows::kLayers) print_groups(console, result.layers, false);
  if (rows == AuditRows::kHeads) print_groups(console, result.heads, true);
}

void write_share_bins(const AuditResult& result, std::ostream& out) {
  TableSource table;
  table.columns = {{"bin", CellType::kInteger}, {"pairs", CellType::kInteger}};
  for (const char* name : {"share_low", "share_median", "share_high", "response_low", "response_median",
                           "response_high", "envelope_low", "envelope_median", "envelope_high"})
    table.columns.push_back({name});
  const std::vector<ShareBin>& bins = result.all.statistics.bins;
  table.rows = [&](const RowSink& sink) {
    for (std::size_t b = 0; b < bins.size(); ++b) {
      const ShareBin& bin = bins[b];
      const Cell cells[] = {static_cast<std::int64_t>(b),
                            bin.pairs,
                            bin.share_low,
                            bin.share_median,
                            bin.share_high,
                            bin.response_low,
                            bin.response_median,
                            bin.response_high,
                            bin.envelope_low,
                            bin.envelope_median,
                            bin.envelope_high};
      sink(cells);
    }
  };
  write_table(table, TableFormat::kCsv, out);
}

int audit_verdict(Console& console, const AuditResult& result) {
  if (result.violations() == 0) return 0;
  const EnvelopeTally& t = result.all.tally;
  console.warning(fmt::format(
      "inequalities broken beyond rounding: zeta <= T {} times, f_pos <= r_H {} times, Prop. 1 {} times",
      t.violations_response, t.violations_norm_floor, t.band.violations));
  if (result.worst.values.pair >= 0) {
    const AuditedPair& worst = result.worst.values;
    console.warning(fmt::format("the worst: {}: zeta {}, T {}, f_pos {}, r_H {}", place(result.worst),
                                exact_number(worst.response), exact_number(worst.envelope),
                                exact_number(worst.norm_floor), exact_number(worst.norm_share)));
  }
  return 1;
}

}  // namespace rope::cli
