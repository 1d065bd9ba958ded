#include "cli/bound_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/ranking_table.hpp"

namespace rope::cli {
namespace {

std::string plain(double value) { return fmt::format("{:.5g}", value); }

void print_grid(std::ostream& out, const GridFacts& grid, std::size_t index, double limit) {
  const auto [low, high] = std::minmax_element(grid.omega.begin(), grid.omega.end());
  out << fmt::format("grid {}: {}", index, printable(grid.rope_type));
  if (grid.theta > 0) out << fmt::format(", theta {:g}", grid.theta);
  out << fmt::format(", {}, ω {} to {}, ρ {}, R_F {:.6g}\n", counted(grid.omega.size(), "pair"), plain(*high),
                     plain(*low), plain(grid.rho), limit);
  if (grid.layers.empty()) return;
  out << (grid.layers.size() == 1 ? "  layer " : "  layers ") << number_ranges(grid.layers);
  if (grid.layer_window > 0)
    out << fmt::format(", which look back over {} tokens: longer windows do not occur there",
                       grid.layer_window);
  out << '\n';
}

void print_points(Console& console, const BoundRequest& request, const BoundSeries& series) {
  Table table({{"M", true}, {"k_N", true}, {"ℓ", true}, {"u", true}, {"v", true}, {"p_floor", true}});
  for (std::size_t i = 0; i < request.windows.size(); ++i) {
    const spectral::BoundPoint& point = series.points[i];
    table.row(
        {std::to_string(request.windows[i]), std::to_string(point.slow_pairs), plain(point.response_floor),
         plain(point.mean_bound), plain(point.deviation_floor), plain(series.p_floor[i])},
        series.p_floor[i] > 0 ? Style::kPlain : Style::kDim);
  }
  table.print(console, console.out());
}

void print_crossings(std::ostream& out, const BoundRequest& request, const BoundSeries& series) {
  for (std::size_t d = 0; d < series.crossings.size(); ++d)
    out << fmt::format("δ {}: {}\n", plain(request.delta[d]), crossing_sentence(series, d, request.delta[d]));
  out << fmt::format("δ* {}, ", plain(series.delta_star));
  out << (series.sufficient_window ? fmt::format("reached from M_suff = {} on\n", *series.sufficient_window)
                                   : fmt::format("M_suff is beyond {}\n", spectral::kLargestBoundWindow));
}

std::string heading(const BoundSeries& series) {
  std::string text = fmt::format("C {}, ε {} (Γ {}), τ {}, ζ {}", plain(series.c), plain(series.epsilon),
                                 plain(series.gamma), plain(series.tau), plain(series.zeta));
  if (series.task.empty()) return text;
  if (!std::isnan(series.quantile)) text += fmt::format(" (quantile {:g})", series.quantile);
  return "task " + printable(series.task) + ": " + text;
}

bool excludes(const BoundSeries& series) {
  return std::any_of(series.crossings.begin(), series.crossings.end(),
                     [](const auto& crossing) { return crossing.first_excluded.has_value(); });
}

/// One line per task, quantile and delta, for one grid and pair of constants; what lies between the windows
/// is in the JSON.
void print_tasks(Console& console, const BoundRequest& request, std::span<const BoundSeries> series) {
  Table table({{"task"},
               {"τ", true},
               {"ζ at", true},
               {"ζ", true},
               {"ℓ", true},
               {"p_floor", true},
               {"δ", true},
               {"M†", true},
               {"M_max", true},
               {"δ*", true},
               {"M_suff", true}});
  const auto whole = [](const std::optional<std::int64_t>& value, const char* none) {
    return value ? std::to_string(*value) : std::string(none);
  };
  for (const BoundSeries& one : series)
    for (std::size_t d = 0; d < request.delta.size(); ++d) {
      const bool given = one.note.empty();
      const auto at_last = [&](double value) { return given ? fmt::format("{:.3g}", value) : "-"; };
      table.row({one.task, short_number(one.tau, 3),
                 std::isnan(one.quantile) ? "given" : fmt::format("{:g}", one.quantile),
                 fmt::format("{:.4g}", one.zeta), at_last(given ? one.points.back().response_floor : 0),
                 at_last(given ? one.p_floor.back() : 0), fmt::format("{:.3g}", request.delta[d]),
                 given ? whole(one.crossings[d].first_excluded, "none") : one.note,
                 given ? whole(one.crossings[d].last_allowed, "none") : "-", short_number(one.delta_star, 3),
                 whole(one.sufficient_window, "-")},
                given && one.crossings[d].first_excluded ? Style::kYellow : Style::kPlain);
    }
  std::ostream& out = console.out();
  out << fmt::format("C {}, ε {} (Γ {}); ℓ and p_floor at M = {}\n", plain(series[0].c),
                     plain(series[0].epsilon), plain(series[0].gamma), request.windows.back());
  table.print(console, out);
  if (!std::all_of(series.begin(), series.end(), excludes))
    out << fmt::format(
        "none: no exclusion within the windows given, {} to {}; p_floor is δ* from M_suff on\n",
        request.windows.front(), request.windows.back());
}

void print_all_tasks(Console& console, const BoundRequest& request, std::span<const BoundSeries> series) {
  std::size_t grid = request.grids.size();
  for (std::size_t first = 0; first < series.size();) {
    const BoundSeries& one = series[first];
    std::size_t end = first;
    while (end < series.size() && series[end].grid == one.grid && series[end].c == one.c &&
           series[end].epsilon == one.epsilon)
      ++end;
    if (first > 0) console.out() << '\n';
    if (one.grid != grid) print_grid(console.out(), request.grids[one.grid], one.grid, one.response_limit);
    grid = one.grid;
    print_tasks(console, request, series.subspan(first, end - first));
    first = end;
  }
}

}  // namespace

std::string number_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (j > i) text += "-" + std::to_string(numbers[j]);
    i = j + 1;
  }
  return text;
}

void print_bounds(Console& console, const BoundRequest& request, std::span<const BoundSeries> series) {
  if (!request.measured.empty()) return print_all_tasks(console, request, series);
  std::ostream& out = console.out();
  std::size_t grid = request.grids.size();
  for (const BoundSeries& one : series) {
    if (one.grid != grid) print_grid(out, request.grids[one.grid], one.grid, one.response_limit);
    grid = one.grid;
    out << '\n' << heading(one) << '\n';
    if (!one.note.empty()) {
      out << one.note << fmt::format(" = {:.6g}: no bound\n", one.response_limit);
      continue;
    }
    print_points(console, request, one);
    print_crossings(out, request, one);
  }
}

}  // namespace rope::cli
