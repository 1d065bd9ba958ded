#include "profiler/head_selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Table = std::vector<std::vector<double>>;

char code(HeadStatus status) { return static_cast<char>(status); }
std::string name_of(const ProfileHead& head) {
  return std::to_string(head.layer) + "." + std::to_string(head.head);
}

/// Settings that count in T: at least one rotating head has a mean norm share there.
std::vector<std::size_t> settings_with_share(const std::vector<ProfileHead>& heads, const Table& share) {
  std::vector<std::size_t> settings;
  for (std::size_t t = 0; t < share.size(); ++t) {
    bool any = false;
    for (std::size_t n = 0; n < heads.size(); ++n) any |= heads[n].rotates && !std::isnan(share[t][n]);
    if (any) settings.push_back(t);
  }
  return settings;
}

/// nu of one head: sample variance over the settings.
double variance_over(const std::vector<std::size_t>& settings, const Table& share, std::size_t head) {
  if (settings.size() < 2) return kNaN;
  double sum = 0, squares = 0;
  for (const std::size_t t : settings) sum += share[t][head];
  const double mean = sum / static_cast<double>(settings.size());
  for (const std::size_t t : settings) squares += (share[t][head] - mean) * (share[t][head] - mean);
  return squares / static_cast<double>(settings.size() - 1);
}

/// The first heads of the order; all of them where nu is undefined (T = 1).
void select_top(HeadSelection& s, const DecimalFraction& fraction) {
  const auto listed = static_cast<std::int64_t>(s.order.size());
  const bool undefined = listed > 0 && std::isnan(s.variance[static_cast<std::size_t>(s.order.front())]);
  const std::int64_t keep = undefined ? listed : std::min(listed, fraction.ceil_of(s.counted));
  std::fill(s.selected.begin(), s.selected.end(), char{0});
  for (std::int64_t i = 0; i < keep; ++i)
    s.selected[static_cast<std::size_t>(s.order[static_cast<std::size_t>(i)])] = 1;
}

void request_listed(const std::vector<ProfileHead>& heads, const std::vector<std::pair<int, int>>& list,
                    std::vector<char>& requested) {
  for (const auto& [layer, head] : list) {
    const auto found = std::find_if(heads.begin(), heads.end(), [layer = layer, head = head](const auto& h) {
      return h.layer == layer && h.head == head;
    });
    const std::string name = "layer " + std::to_string(layer) + " head " + std::to_string(head);
    if (found == heads.end())
      throw usage_error("--heads: no cache stores " + name,
                        "layers and heads count from 0; `inspect` lists those of a file");
    if (!found->rotates) throw usage_error("--heads: " + name + " does not rotate, so it has no scores");
    requested[static_cast<std::size_t>(found - heads.begin())] = 1;
  }
}

}  // namespace

std::vector<char> requested_heads(const std::vector<ProfileHead>& heads, const HeadRequest& request) {
  std::vector<char> requested(heads.size(), 0);
  if (request.kind == HeadRequest::Kind::kAll)
    for (std::size_t n = 0; n < heads.size(); ++n) requested[n] = heads[n].rotates;
  if (request.kind == HeadRequest::Kind::kList) request_listed(heads, request.list, requested);
  return requested;
}

HeadSelection select_heads(const std::vector<ProfileHead>& heads, const Table& share,
                           const std::vector<std::vector<char>>& stored, const HeadRequest& request) {
  HeadSelection s;
  s.selected = requested_heads(heads, request);
  s.variance.assign(heads.size(), kNaN);
  s.status.assign(heads.size(), code(HeadStatus::kRanked));
  const std::vector<std::size_t> settings = settings_with_share(heads, share);

  for (std::size_t n = 0; n < heads.size(); ++n) {
    if (!heads[n].rotates) {
      s.status[n] = code(HeadStatus::kNoRotation);
      continue;
    }
    if (std::any_of(stored.begin(), stored.end(), [n](const auto& task) { return !task[n]; })) {
      s.status[n] = code(HeadStatus::kMissingInTask);
      continue;
    }
    ++s.counted;
    const bool defined =
        !settings.empty() && std::none_of(settings.begin(), settings.end(),
                                          [&](std::size_t t) { return std::isnan(share[t][n]); });
    if (!defined) {
      s.status[n] = code(HeadStatus::kUndefinedInTask);
      continue;
    }
    s.variance[n] = variance_over(settings, share, n);
    s.order.push_back(static_cast<std::int64_t>(n));
  }
  // Heads come layer-major, so a stable sort settles ties; with T = 1 it leaves them in that order.
  std::stable_sort(s.order.begin(), s.order.end(), [&s](std::int64_t a, std::int64_t b) {
    return s.variance[static_cast<std::size_t>(a)] > s.variance[static_cast<std::size_t>(b)];
  });

  switch (request.kind) {
    case HeadRequest::Kind::kAll:
      s.rule = "all";
      break;
    case HeadRequest::Kind::kList:
      s.rule = "list";
      break;
    case HeadRequest::Kind::kTop:
      s.rule = "top:" + request.fraction.text;
      select_top(s, request.fraction);
      break;
  }
  return s;
}

HeadSelection reuse_selection(const ProfileReader& from, const std::vector<ProfileHead>& heads,
                              const DecimalFraction* recut) {
  HeadSelection old = from.selection();
  if (old.rule.empty())
    throw input_error(from.path(), "/selection", "a selection of heads", "none", "use a finished profile");
  if (recut) select_top(old, *recut);
  const auto& known = from.header().heads;

  HeadSelection s;
  s.rule = "selection:" + from.path().substr(from.path().find_last_of('/') + 1) +
           (recut ? " top:" + recut->text : "");
  s.counted = old.counted;
  s.selected.assign(heads.size(), 0);
  s.variance.assign(heads.size(), kNaN);
  s.status.assign(heads.size(), code(HeadStatus::kMissingInTask));
  std::vector<std::int64_t> row_of(known.size(), -1);
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const auto found = std::lower_bound(
        known.begin(), known.end(), heads[n],
        [](const auto& a, const auto& b) { return std::pair(a.layer, a.head) < std::pair(b.layer, b.head); });
    const bool same = found != known.end() && found->layer == heads[n].layer && found->head == heads[n].head;
    if (!heads[n].rotates) s.status[n] = code(HeadStatus::kNoRotation);
    if (!same) continue;
    if (found->rotates != heads[n].rotates)
      throw input_error(from.path(), "/heads", "the same model as the caches'",
                        "head " + name_of(heads[n]) + " rotates in one of them only");
    const auto row = static_cast<std::size_t>(found - known.begin());
    row_of[row] = static_cast<std::int64_t>(n);
    s.selected[n] = old.selected[row];
    s.variance[n] = old.variance[row];
    s.status[n] = old.status[row];
  }
  for (std::size_t row = 0; row < known.size(); ++row)
    if (old.selected[row] && row_of[row] < 0)
      throw input_error(from.path(), "/selection", "heads that the caches store",
                        "head " + name_of(known[row]) + ", which they do not");
  for (const std::int64_t row : old.order)
    if (const std::int64_t n = row_of[static_cast<std::size_t>(row)]; n >= 0) s.order.push_back(n);
  return s;
}

int stage_of(std::int64_t position, std::int64_t counted) {
  static const DecimalFraction first{1, 20, "0.05"}, second{1, 10, "0.1"};  // P G.2.3
  if (position < first.ceil_of(counted)) return 5;
  return position < second.ceil_of(counted) ? 10 : 0;
}

}  // namespace rope
