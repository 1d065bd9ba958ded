#include "cli/band_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/bound_table.hpp"
#include "cli/ranking_table.hpp"

namespace rope::cli {
namespace {

using spectral::ScoreLaw;

constexpr std::size_t kMostSpectra = 6;  // groups that get a table each
constexpr std::size_t kMostRows = 32;

std::string range(double low, double high) {
  return low == high ? fmt::format("{:.4g}", low) : fmt::format("{:.4g} to {:.4g}", low, high);
}

std::string plain(double value, int digits = 4) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string windows_of(const BandGroup& group) {
  return group.window_min == group.window_max ? std::to_string(group.window_min)
                                              : fmt::format("{}-{}", group.window_min, group.window_max);
}

std::string name_of(const BandGroup& group, BandBy by) {
  if (by == BandBy::kHead) return fmt::format("head {}.{}", group.layer, group.head);
  return (group.layers.size() == 1 ? "layer " : "layers ") + number_ranges(group.layers);
}

/// k, pair, omega and M omega of the place where the agreement breaks.
std::string break_sentence(const BandGroup& group, const GridFacts& grid, double threshold) {
  const auto prefixes = spectral::prefix_agreement(group.sums);
  const std::size_t size = spectral::first_break(prefixes, threshold);
  if (size == 0) return fmt::format("R is at least {:g} for every prefix", threshold);
  const BandPlace place = band_places(grid)[size - 1];
  return fmt::format("R falls below {:g} at k = {}: pair {}, ω {:.4g}, Mω {} (R {:.4f})", threshold, size,
                     place.pair, place.omega,
                     range(static_cast<double>(group.window_min) * place.omega,
                           static_cast<double>(group.window_max) * place.omega),
                     prefixes[size - 1].agreement);
}

std::string size_text(const BandLaw& law) {
  return law.size_min == law.size_max ? std::to_string(law.size_min)
                                      : fmt::format("{}-{}", law.size_min, law.size_max);
}

std::string law_sentence(const BandLaw& law, const BandOptions& options) {
  std::string text = law.set + ", " + size_text(law) + " pairs: ";
  if (law.law.vectors() == 0) return text + "no vector has energy there, so there is no score law";
  const auto distance = law.law.kolmogorov();
  text += fmt::format("Kolmogorov distance to N(0,1) {:.4f} + {:.4f} at most, over {} vectors",
                      distance.distance, distance.error, law.law.vectors());
  if (law.left_out > 0) text += fmt::format(" ({} without energy in H left out)", law.left_out);
  if (options.law_stride > 1) text += fmt::format(", every {}th pair of a head", options.law_stride);
  return text;
}

/// Sizes that a table shows: those asked for, else all, thinned out evenly, with the break.
std::vector<std::size_t> shown_sizes(std::size_t h, const std::vector<int>& asked, std::size_t broken) {
  std::vector<std::size_t> sizes;
  for (const int size : asked)
    if (size >= 1 && static_cast<std::size_t>(size) <= h) sizes.push_back(static_cast<std::size_t>(size));
  if (asked.empty()) {
    const std::size_t step = (h + kMostRows - 1) / kMostRows;
    for (std::size_t k = step; k <= h; k += step) sizes.push_back(k);
    if (!sizes.empty() && sizes.back() != h) sizes.push_back(h);
  }
  if (broken > 0) sizes.push_back(broken);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

void print_spectrum(Console& console, const BandGroup& group, const GridFacts& grid, double threshold,
                    const std::vector<int>& asked) {
  const auto prefixes = spectral::prefix_agreement(group.sums);
  const auto pairs = spectral::pair_agreement(group.sums);
  const auto shares = spectral::energy_shares(group.sums);
  const auto places = band_places(grid);
  const std::size_t broken = spectral::first_break(prefixes, threshold);
  Table table({{"k", true},
               {"pair", true},
               {"ω", true},
               {"Mω", true},
               {"energy", true},
               {"of pairs 1-k", true},
               {"pair's R_var", true},
               {"R_var", true},
               {"a", true},
               {"R", true}});
  double together = 0;
  std::size_t k = 0;
  for (const std::size_t size : shown_sizes(prefixes.size(), asked, broken)) {
    for (; k < size; ++k) together += shares[k];
    const std::size_t at = size - 1;
    table.row({std::to_string(size), std::to_string(places[at].pair), fmt::format("{:.4g}", places[at].omega),
               range(static_cast<double>(group.window_min) * places[at].omega,
                     static_cast<double>(group.window_max) * places[at].omega),
               plain(shares[at]), plain(together), plain(pairs[at]), plain(prefixes[at].r_var),
               plain(prefixes[at].ratio), plain(prefixes[at].agreement)},
              size == broken ? Style::kYellow : Style::kPlain);
  }
  table.print(console, console.out());
}

void print_law(Console& console, const BandLaw& one) {
  constexpr int kWidth = ScoreLaw::kPerUnit / 2;
  const auto edge = [](int e) { return -ScoreLaw::kReach + static_cast<double>(e) / ScoreLaw::kPerUnit; };
  Table table({{"score", true}, {"share", true}, {"N(0,1)", true}});
  const int first = (ScoreLaw::kReach - 3) * ScoreLaw::kPerUnit,
            end = (ScoreLaw::kReach + 3) * ScoreLaw::kPerUnit;
  table.row({"below -3", plain(one.law.share_below(first), 5), plain(spectral::normal_below(-3), 5)});
  for (int e = first; e < end; e += kWidth)
    table.row({fmt::format("{:.1f} to {:.1f}", edge(e), edge(e + kWidth)),
               plain(one.law.share_below(e + kWidth) - one.law.share_below(e), 5),
               plain(spectral::normal_below(edge(e + kWidth)) - spectral::normal_below(edge(e)), 5)});
  table.row({"3 and above", plain(1 - one.law.share_below(end), 5), plain(spectral::normal_below(-3), 5)});
  table.print(console, console.out());
}

void print_whole(Console& console, const BandResult& result, const BandGroup& group,
                 const BandOptions& options, double threshold, const std::vector<int>& asked) {
  std::ostream& out = console.out();
  const GridFacts& grid = result.grids[group.grid];
  out << fmt::format("{}: {}", name_of(group, options.by), printable(grid.rope_type));
  if (grid.theta > 0) out << fmt::format(", theta {:g}", grid.theta);
  out << fmt::format(", {}, M {}, {}", counted(grid.omega.size(), "pair"), windows_of(group),
                     counted(static_cast<std::size_t>(group.sums.vectors), "margin"));
  if (group.left_out > 0) out << fmt::format(" ({} left out)", group.left_out);
  out << '\n';
  if (group.sums.vectors > 0) {
    print_spectrum(console, group, grid, threshold, asked);
    out << break_sentence(group, grid, threshold) << '\n';
  }
  for (const BandLaw& law : group.laws) {
    out << law_sentence(law, options) << '\n';
    if (law.law.vectors() > 0) print_law(console, law);
  }
}

void print_lines(Console& console, const BandResult& result, const BandOptions& options, double threshold) {
  Table table({{"group"},
               {"M", true},
               {"margins", true},
               {"R of all", true},
               {"breaks at k", true},
               {"pair", true},
               {"ω", true},
               {"Mω", true},
               {"|H|", true},
               {"D", true}});
  for (const BandGroup& group : result.groups) {
    const auto prefixes = spectral::prefix_agreement(group.sums);
    const std::size_t broken = spectral::first_break(prefixes, threshold);
    std::vector<std::string> cells{name_of(group, options.by), windows_of(group),
                                   std::to_string(group.sums.vectors),
                                   prefixes.empty() ? "-" : plain(prefixes.back().agreement)};
    if (broken > 0) {
      const BandPlace place = band_places(result.grids[group.grid])[broken - 1];
      cells.insert(cells.end(),
                   {std::to_string(broken), std::to_string(place.pair), fmt::format("{:.4g}", place.omega),
                    range(static_cast<double>(group.window_min) * place.omega,
                          static_cast<double>(group.window_max) * place.omega)});
    } else {
      cells.insert(cells.end(), {"none", "-", "-", "-"});
    }
    const bool law = !group.laws.empty();
    cells.push_back(law ? size_text(group.laws[0]) : "-");
    cells.push_back(law ? plain(group.laws[0].law.kolmogorov().distance) : "-");
    table.row(std::move(cells));
  }
  table.print(console, console.out());
  console.out() << fmt::format(
      "breaks: first prefix with R below {:g}; D: Kolmogorov distance of the scores of H(M) to "
      "N(0,1)\n",
      threshold);
}

}  // namespace

void print_bands(Console& console, const BandResult& result, const BandOptions& options, double threshold,
                 const std::vector<int>& sizes) {
  if (result.groups.size() > kMostSpectra) return print_lines(console, result, options, threshold);
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    if (g > 0) console.out() << '\n';
    print_whole(console, result, result.groups[g], options, threshold, sizes);
  }
}

}  // namespace rope::cli
