#include "cli/adarope_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <ostream>

#include "cli/ranking_table.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kHeadsNamed = 12;

template <class Head>
std::string head_name(const Head& head) {
  return fmt::format("{}.{}", head.layer, head.head);
}

double last(const std::vector<double>& values) { return values.empty() ? HeadFit::kNone : values.back(); }

double at_reference(const HeadFit& fit) {
  for (std::size_t i = 0; i < fit.lengths.size(); ++i)
    if (fit.lengths[i] == fit.reference_length) return fit.effective_length[i];
  return HeadFit::kNone;
}

void print_reasons(const AdaropeFit& fit, std::ostream& to) {
  std::map<std::string, std::vector<std::string>> heads;
  for (const HeadFit& head : fit.heads)
    if (!head.fitted()) heads[head.reason].push_back(head_name(head));
  for (const auto& [reason, names] : heads) {
    to << "no fit:";
    for (std::size_t i = 0; i < names.size() && i < kHeadsNamed; ++i) to << ' ' << names[i];
    if (names.size() > kHeadsNamed) to << " and " << names.size() - kHeadsNamed << " more";
    to << ": " << reason << '\n';
  }
}

void print_fit(const AdaropeFit& fit, const Console& console, std::ostream& to, bool for_err) {
  to << "logit scale lambda(L) = (1/tau) ln(1 + max(L, L_ref) / L_ref)^gamma that holds E_2, "
     << counted(fit.heads.size(), "head") << '\n';
  Table table({{"head"},
               {"L_ref", true},
               {"L", true},
               {"E_2(L_ref)", true},
               {"E_2(L)", true},
               {"lambda(L)", true},
               {"NoPE", true},
               {"tau", true},
               {"gamma", true},
               {"residual", true}});
  for (const HeadFit& head : fit.heads)
    table.row({head_name(head), short_number(head.reference_length, 5), short_number(last(head.lengths), 5),
               short_number(at_reference(head), 4), short_number(last(head.effective_length), 4),
               short_number(last(head.lambda), 4), short_number(last(head.nope_scale), 4),
               short_number(head.tau, 4), short_number(head.gamma, 4), short_number(head.residual, 2)},
              head.fitted() ? Style::kPlain : Style::kDim);
  table.print(console, to, for_err);
  print_reasons(fit, to);
}

// "3 (-1.25)": the pair of the largest change.
std::string largest_change(const std::vector<double>& changes) {
  std::size_t largest = changes.size();
  for (std::size_t n = 0; n < changes.size(); ++n)
    if (!std::isnan(changes[n]) &&
        (largest == changes.size() || std::abs(changes[n]) > std::abs(changes[largest])))
      largest = n;
  return largest == changes.size() ? "-" : fmt::format("{} ({:+.3g})", largest, changes[largest]);
}

std::string base_text(double base) { return std::isnan(base) ? "-" : fmt::format("{:.6g}", base); }

void print_use(const std::vector<HeadUse>& use, const Console& console, std::ostream& to, bool for_err) {
  to << "frequency use (in brackets: without phase), and the frequency that matters most to E_2 and "
        "variance\n";
  Table table({{"head"},
               {"CoV", true},
               {"", true},
               {"centroid", true},
               {"", true},
               {"mass", true},
               {"Theta", true},
               {"E_2", true},
               {"E_2 frozen", true},
               {"variance frozen", true}});
  const auto bracketed = [](double value) { return fmt::format("({})", short_number(value, 3)); };
  for (const HeadUse& head : use)
    table.row({head_name(head), short_number(head.usage_cov, 3), bracketed(head.usage_norm_cov),
               short_number(head.usage_centroid, 3), bracketed(head.usage_norm_centroid),
               short_number(head.frequency_mass, 4), base_text(head.effective_base),
               short_number(head.effective_length, 4), largest_change(head.length_change),
               largest_change(head.variance_change)});
  table.print(console, to, for_err);
}

const char* verdict(const HeadWindowTask& head) {
  if (!head.bounds) return "-";
  return head.bounds->possible ? "yes" : "no";
}

void print_task(const WindowTaskRun& run, const Console& console, std::ostream& to, bool for_err) {
  to << fmt::format("frequency mass of a head that finds its key at distances 0 to {}, r {}, epsilon {}\n",
                    run.request.window, run.request.slack, run.request.epsilon);
  Table table({{"head"},
               {"A*", true},
               {"|q||k|", true},
               {"L", true},
               {"C1", true},
               {"C2", true},
               {"lower", true},
               {"mass", true},
               {"upper", true},
               {"possible"}});
  for (const HeadWindowTask& head : run.heads) {
    const spectral::WindowTaskBounds bounds =
        head.bounds.value_or(spectral::WindowTaskBounds{.needed = HeadUse::kNone,
                                                        .c1 = HeadUse::kNone,
                                                        .c2 = HeadUse::kNone,
                                                        .lower = HeadUse::kNone,
                                                        .upper = HeadUse::kNone});
    table.row({head.layer < 0 ? "-" : head_name(head), short_number(head.task.amplitude, 4),
               short_number(head.task.norm_product, 4), short_number(head.task.length, 5),
               short_number(bounds.c1, 4), short_number(bounds.c2, 4), short_number(bounds.lower, 4),
               short_number(head.frequency_mass, 4), short_number(bounds.upper, 4), verdict(head)});
  }
  table.print(console, to, for_err);
  to << "a lower bound <= 0 says nothing, nor does an upper one above the largest frequency\n";
}

}  // namespace

void print_adarope(const AdaropeResult& result, const Console& console, std::ostream& to, bool for_err) {
  bool first = true;
  const auto part = [&](bool wanted) {
    if (wanted && !first) to << '\n';
    first = first && !wanted;
    return wanted;
  };
  if (part(result.fit.has_value())) print_fit(*result.fit, console, to, for_err);
  if (part(result.use.has_value())) print_use(*result.use, console, to, for_err);
  if (part(result.window_task.has_value())) print_task(*result.window_task, console, to, for_err);
}

}  // namespace rope::cli
