#include "cli/length_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "profiler/mean.hpp"

namespace rope::cli {
namespace {

std::string fixed(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string length_text(double value) { return std::isnan(value) ? "-" : fmt::format("{:.5g}", value); }

/// Heads that share a row of the table.
struct RowGroup {
  std::string name;
  std::vector<const LengthHeadRow*> heads;
};

std::vector<RowGroup> row_groups(const LengthReport& report, LengthRows rows) {
  std::vector<RowGroup> groups;
  for (const LengthHeadRow& head : report.heads) {
    const std::string name = rows == LengthRows::kLayers ? std::to_string(head.layer)
                                                         : fmt::format("{}.{}", head.layer, head.head);
    if (groups.empty() || groups.back().name != name) groups.push_back({name, {}});
    groups.back().heads.push_back(&head);
  }
  return groups;
}

template <class Value>
double mean_of(const RowGroup& group, const Value& value) {
  Mean mean;
  for (const LengthHeadRow* head : group.heads) mean.add(value(*head));
  return mean.value();
}

template <class Value>
double attention_mean(const RowGroup& group, const Value& value) {
  return mean_of(group, [&](const LengthHeadRow& head) {
    return head.attention ? static_cast<double>(value(*head.attention)) : Mean().value();
  });
}

std::string reach_text(const RowGroup& group) {
  const std::int64_t window = group.heads[0]->window;
  return window > 0 ? fmt::format("{}", window) : "all";
}

void print_virtual(const LengthReport& report, const LengthOptions& options, LengthRows rows,
                   Console& console) {
  const auto beta = options.orders.beta();
  std::vector<Table::Column> columns{{rows == LengthRows::kLayers ? "layer" : "head", true},
                                     {"window", true}};
  for (const double order : beta) columns.push_back({"E_" + spectral::order_name(order), true});
  for (const double order : beta)
    columns.push_back({fmt::format("E_{} of N", spectral::order_name(order)), true});
  Table table(columns);
  for (const RowGroup& group : row_groups(report, rows)) {
    std::vector<std::string> cells{group.name, reach_text(group)};
    for (const bool slow : {false, true})
      for (std::size_t i = 0; i < beta.size(); ++i)
        cells.push_back(length_text(
            mean_of(group, [&](const LengthHeadRow& head) { return slow ? head.slow[i] : head.length[i]; })));
    table.row(std::move(cells));
  }
  console.out()
      << "virtual effective length in tokens: softmax of S(m) over the window, pair by pair; N: H stopped\n";
  table.print(console, console.out());
}

std::string interval(const HeadGrowth& growth) {
  if (!growth.fit || std::isnan(growth.fit->low)) return "-";
  return fmt::format("{:.2f} to {:.2f}", growth.fit->low, growth.fit->high);
}

double slope_of(const HeadGrowth& growth) { return growth.fit ? growth.fit->slope : Mean().value(); }

Style style_of(spectral::GrowthClass growth) {
  switch (growth) {
    case spectral::GrowthClass::kRetrieval:
      return Style::kCyan;
    case spectral::GrowthClass::kAggregation:
      return Style::kYellow;
    default:
      return Style::kPlain;
  }
}

// "5/3/1": heads of a layer in each class.
std::string class_counts(const RowGroup& group, bool without_first) {
  std::map<spectral::GrowthClass, int> count;
  for (const LengthHeadRow* head : group.heads)
    if (head->attention)
      ++count[(without_first ? head->attention->without_first : head->attention->growth).growth];
  using spectral::GrowthClass;
  return fmt::format("{}/{}/{}", count[GrowthClass::kRetrieval], count[GrowthClass::kMixed],
                     count[GrowthClass::kAggregation]);
}

void print_growth(const LengthReport& report, const LengthOptions& options, LengthRows rows,
                  Console& console) {
  const bool layers = rows == LengthRows::kLayers;
  std::vector<Table::Column> columns{{layers ? "layer" : "head", true}, {"keys", true}};
  for (const char* star : {"", "*"}) {
    columns.push_back({fmt::format("E_2{}", star), true});
    columns.push_back({fmt::format("b{}", star), true});
    if (!layers) columns.push_back({fmt::format("b{} 95 %", star), true});
    columns.push_back({layers ? fmt::format("r/m/a{}", star) : fmt::format("class{}", star), layers});
  }
  Table table(columns);
  for (const RowGroup& group : row_groups(report, rows)) {
    if (!group.heads[0]->attention) continue;
    const HeadAttention& first = *group.heads[0]->attention;
    std::vector<std::string> cells{group.name,
                                   std::isnan(first.longest)
                                       ? std::string("-")
                                       : fmt::format("{:.0f} to {:.0f}", first.shortest, first.longest)};
    for (const bool starred : {false, true}) {
      const auto growth = [&](const HeadAttention& head) -> const HeadGrowth& {
        return starred ? head.without_first : head.growth;
      };
      const double log_length = attention_mean(group, [&](const HeadAttention& head) {
        return std::log(starred ? head.effective_length_without_first : head.effective_length);
      });
      cells.push_back(length_text(std::exp(log_length)));
      cells.push_back(
          fixed(attention_mean(group, [&](const HeadAttention& head) { return slope_of(growth(head)); }), 3));
      if (!layers) cells.push_back(interval(growth(first)));
      cells.push_back(layers ? class_counts(group, starred)
                             : std::string(spectral::growth_class_name(growth(first).growth)));
    }
    table.row(std::move(cells), layers ? Style::kPlain : style_of(first.without_first.growth));
  }
  console.out() << fmt::format(
      "attention over all keys in reach: ln E_2 = a + b ln L; E_2 at the longest L\n"
      "*: without the first token; retrieval: b < {}, aggregation: b > {}, else mixed{}\n",
      options.retrieval_below, options.aggregation_above, layers ? "; r/m/a: heads" : "");
  table.print(console, console.out());
}

void print_patterns(const LengthReport& report, const LengthOptions& options, LengthRows rows,
                    Console& console) {
  Table table({{rows == LengthRows::kLayers ? "layer" : "head", true},
               {"rows", true},
               {"entropy", true},
               {"sink", true},
               {"previous", true},
               {"best slash", true},
               {"offset", true},
               {fmt::format("local {}", options.local), true}});
  for (const RowGroup& group : row_groups(report, rows)) {
    if (!group.heads[0]->attention) continue;
    std::int64_t count = 0;
    for (const LengthHeadRow* head : group.heads) count += head->attention ? head->attention->rows : 0;
    const HeadAttention* best = nullptr;  // of a layer: the head with the largest
    for (const LengthHeadRow* head : group.heads)
      if (head->attention && head->attention->offset >= 0 && (!best || head->attention->slash > best->slash))
        best = &*head->attention;
    const auto mean = [&](double HeadAttention::*member) {
      return fixed(attention_mean(group, [&](const HeadAttention& head) { return head.*member; }), 4);
    };
    table.row({group.name, std::to_string(count), mean(&HeadAttention::entropy), mean(&HeadAttention::sink),
               mean(&HeadAttention::previous), best ? fixed(best->slash, 4) : "-",
               best ? std::to_string(best->offset) : "-", mean(&HeadAttention::local)});
  }
  console.out() << "attention patterns: entropy in nats; mean weight of the first token (sink), of the "
                   "previous one,\n"
                << fmt::format("at the best fixed offset (slash) and within {} tokens (local)\n",
                               options.local);
  table.print(console, console.out());
}

}  // namespace

void print_lengths(const LengthReport& report, const LengthOptions& options, LengthRows rows,
                   Console& console) {
  if (options.virtual_lengths) print_virtual(report, options, rows, console);
  bool attends = false;
  for (const LengthHeadRow& head : report.heads) attends = attends || head.attention.has_value();
  if (!attends) return;
  if (options.virtual_lengths) console.out() << '\n';
  print_growth(report, options, rows, console);
  console.out() << '\n';
  print_patterns(report, options, rows, console);
}

}  // namespace rope::cli
