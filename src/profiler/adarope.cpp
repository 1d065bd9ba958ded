#include "profiler/adarope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "profiler/attention_rows.hpp"
#include "profiler/error.hpp"
#include "profiler/mean.hpp"
#include "spectral/ada_scale.hpp"
#include "spectral/nope_scale.hpp"
#include "spectral/scale_search.hpp"

namespace rope {
namespace {

using spectral::ScaleSearch;
using State = ScaleSearch::State;

constexpr std::int64_t kQueriesPerBlock = 64;
/// ln E_2 at the reference below which one key holds all weight: the scale that keeps it is not determined.
constexpr double kLeastLogLength = 1e-6;

// What is averaged of the rows of a length group.
struct GroupMeans {
  Mean length, variance;
  std::vector<Mean> log_length;  // at each scale of the pass

  void add(double keys, double logit_variance, const std::vector<double>& lengths) {
    length.add(keys);
    variance.add(logit_variance);
    log_length.resize(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) log_length[i].add(lengths[i]);
  }
  void add_mean_of(const GroupMeans& other) {
    std::vector<double> lengths;
    for (const Mean& mean : other.log_length) lengths.push_back(mean.value());
    add(other.length.value(), other.variance.value(), lengths);
  }
};

// Rows of a block of queries.
struct RowValues : ScanResult {
  struct Row {
    std::size_t group = 0;
    std::int64_t keys = 0;
    bool defined = false;
    double variance = 0;
    std::vector<double> log_length;
  };
  std::vector<Row> rows;
};

// Scales of a pass: of every group of a head.
using GroupScales = std::vector<std::vector<double>>;

// The rows of a block at the scales of their groups. scales: null = first_points() for every group.
std::unique_ptr<ScanResult> rows_of(const ScanBlock& block, const GroupScales* scales) {
  const HeadJob& job = *block.job;
  const PartSlots& slots = *job.slots;
  const auto first = ScaleSearch::first_points();
  AttentionRequest request;
  request.reach = attention_reach(*job.setting.layer, job.grid->window());
  request.scales.resize(slots.query_slot.size());
  std::vector<std::size_t> group_of(slots.query_slot.size());
  const std::vector<std::int64_t> order = queries_by_position(slots);
  bool wanted = false;
  for (std::size_t group = 0; group < order.size(); ++group) {
    const auto query = static_cast<std::size_t>(order[group]);
    group_of[query] = group;
    if (scales == nullptr)
      request.scales[query].assign(first.begin(), first.end());
    else if (group < scales->size())
      request.scales[query] = (*scales)[group];
    wanted = wanted || (order[group] >= block.first && order[group] < block.first + block.count &&
                        !request.scales[query].empty());
  }
  auto values = std::make_unique<RowValues>();
  if (!wanted) return values;
  HeadVectors vectors;  // not kept: a later head's vectors may lie at the same address
  vectors.assign(job.setting, slots, job.phases.get());
  for (const AttentionRow& row : attention_rows(vectors, block.first, block.count, request)) {
    if (row.at_scale.empty()) continue;
    RowValues::Row value;
    value.group = group_of[static_cast<std::size_t>(row.query)];
    value.keys = row.keys;
    value.defined = row.defined;
    // The variance of the first scale's logits is scale^2 that of the head's: taken at scale 1 alone.
    if (scales == nullptr && row.defined)
      value.variance = row.at_scale[ScaleSearch::kUnitPoint].all.variance();
    if (row.defined)
      for (const AttentionRow::Sums& sums : row.at_scale)
        value.log_length.push_back(spectral::log_effective_length_2(sums.all));
    values->rows.push_back(std::move(value));
  }
  return values;
}

// Groups of the heads, from one pass.
using HeadGroups = std::map<std::int64_t, std::vector<GroupMeans>>;

class GroupFold {
 public:
  explicit GroupFold(const CacheRun& run) : run_(run) {}

  void take(const ScanBlock& block, const RowValues& values) {
    if (run_.task_index(block.example) != task_) close_task();
    task_ = run_.task_index(block.example);
    std::vector<GroupMeans>& groups = of_task_[block.head];
    for (const RowValues::Row& row : values.rows) {
      ++rows;
      left_out += !row.defined;
      if (!row.defined) continue;
      if (groups.size() <= row.group) groups.resize(row.group + 1);
      groups[row.group].add(static_cast<double>(row.keys), row.variance, row.log_length);
    }
  }

  HeadGroups finish() {
    close_task();
    return std::move(total_);
  }

  std::int64_t rows = 0, left_out = 0;

 private:
  void close_task() {
    for (const auto& [head, groups] : of_task_) {
      std::vector<GroupMeans>& total = total_[head];
      if (total.size() < groups.size()) total.resize(groups.size());
      for (std::size_t g = 0; g < groups.size(); ++g)
        if (groups[g].length.count > 0) total[g].add_mean_of(groups[g]);
    }
    of_task_.clear();
  }

  const CacheRun& run_;
  std::size_t task_ = 0;
  HeadGroups of_task_, total_;
};

// One head under way.
struct HeadSearch {
  HeadFit fit;
  std::vector<std::size_t> used;                // groups of the fit's lists
  std::size_t reference = 0;                    // index into them
  std::map<std::size_t, ScaleSearch> searches;  // by group, but the reference

  bool open() const {
    return std::any_of(searches.begin(), searches.end(),
                       [](const auto& search) { return search.second.state() == State::kOpen; });
  }
};

std::size_t nearest_group(const std::vector<GroupMeans>& groups, const std::optional<double>& length) {
  std::size_t nearest = groups.size();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].length.count == 0) continue;
    if (!length) return g;
    const double distance = std::abs(std::log(groups[g].length.value() / *length));
    if (distance < least) {
      least = distance;
      nearest = g;
    }
  }
  return nearest;
}

// Reference, used groups and what is known at scale 1, from the first pass; starts the searches.
void begin(HeadSearch& head, const std::vector<GroupMeans>& groups, const AdaropeOptions& options) {
  const std::size_t reference = nearest_group(groups, options.reference_length);
  if (reference == groups.size()) {
    head.fit.reason = "no row of attention has weights";
    return;
  }
  HeadFit& fit = head.fit;
  fit.reference_length = groups[reference].length.value();
  const double target = groups[reference].log_length[ScaleSearch::kUnitPoint].value();
  if (!(target > kLeastLogLength)) {
    fit.reason = "E_2 at the reference length is 1, which every large scale holds";
    return;
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].length.count > 0 && groups[g].length.value() >= fit.reference_length)
      head.used.push_back(g);
  std::stable_sort(head.used.begin(), head.used.end(), [&](std::size_t a, std::size_t b) {
    return groups[a].length.value() < groups[b].length.value();
  });
  Mean variance;
  for (std::size_t i = 0; i < head.used.size(); ++i) {
    const GroupMeans& group = groups[head.used[i]];
    fit.lengths.push_back(group.length.value());
    fit.effective_length.push_back(std::exp(group.log_length[ScaleSearch::kUnitPoint].value()));
    variance.add(group.variance.value());
    if (head.used[i] == reference) {
      head.reference = i;
      continue;
    }
    std::vector<double> values;
    for (const Mean& mean : group.log_length) values.push_back(mean.value());
    head.searches[head.used[i]].start(values, target);
  }
  fit.logit_variance = variance.value();
  for (double length : fit.lengths)
    fit.nope_scale.push_back(
        spectral::nope_scale(length, fit.effective_length[head.reference], fit.logit_variance));
}

std::string no_scale(State state, double length) {
  if (state == State::kAbove)
    return fmt::format("no scale up to 1e4 brings E_2 down to its reference value at L = {:.6g}", length);
  if (state == State::kBelow)
    return fmt::format("no scale above 0 brings E_2 up to its reference value at L = {:.6g}", length);
  return fmt::format("E_2 is not defined at L = {:.6g}", length);
}

// lambda and the fit, once the searches have ended.
void finish(HeadSearch& head) {
  HeadFit& fit = head.fit;
  if (!fit.reason.empty()) return;
  for (std::size_t i = 0; i < head.used.size(); ++i) {
    if (i == head.reference) {
      fit.lambda.push_back(1.0);
      continue;
    }
    const ScaleSearch& search = head.searches.at(head.used[i]);
    fit.lambda.push_back(search.scale());
    if (search.state() != State::kFound && fit.reason.empty())
      fit.reason = no_scale(search.state(), fit.lengths[i]);
  }
  if (fit.lengths.size() < spectral::kLeastScalePoints) {
    fit.reason =
        fmt::format("{} of the 3 groups of lengths at or above L_ref that a fit needs", fit.lengths.size());
    return;
  }
  if (!fit.reason.empty()) return;
  const auto found = spectral::fit_ada_scale(fit.lengths, fit.lambda, fit.reference_length);
  if (!found) {
    fit.reason = "all groups have the same length";
    return;
  }
  fit.tau = found->tau;
  fit.gamma = found->gamma;
  fit.residual = found->residual;
}

class AdaropeRun {
 public:
  AdaropeRun(const CacheRun& run, const AdaropeOptions& options) : run_(run), options_(options) {}

  AdaropeFit fit() {
    open_heads();
    first_pass();
    while (next_pass()) continue;
    for (auto& [index, head] : heads_) {
      finish(head);
      result_.heads.push_back(std::move(head.fit));
    }
    warn();
    return std::move(result_);
  }

 private:
  void open_heads() {
    std::int64_t longest = 0;
    for (const SetExample* example : run_.examples()) longest = std::max(longest, example->window);
    for (std::size_t n = 0; n < run_.heads().size(); ++n) {
      if (run_.heads()[n] == 0) continue;
      const SetHead& at = run_.set().heads()[n];
      HeadSearch& head = heads_[static_cast<std::int64_t>(n)];
      head.fit.layer = at.layer;
      head.fit.head = at.head;
      const ResolvedModel& model = run_.set().model(run_.set().file_of_layer(at.layer));
      for (double omega : model.grid(at.layer, at.head, longest).omega)
        head.fit.xi.push_back(omega > 0 ? std::log(omega) : HeadFit::kNone);
      if (run_.set().layer(at.layer).softcap > 0)
        head.fit.reason = "the layer caps its logits, so E_2 need not fall in the scale";
    }
  }

  // A pass over the heads that are not done; scales: null in the first.
  HeadGroups pass(const std::map<std::int64_t, GroupScales>* scales) {
    std::vector<char> wanted(run_.heads().size(), 0);
    for (const auto& [index, head] : heads_)
      wanted[static_cast<std::size_t>(index)] =
          scales != nullptr ? scales->contains(index) : head.fit.reason.empty();
    if (std::find(wanted.begin(), wanted.end(), 1) == wanted.end()) return {};
    ++result_.passes;
    GroupFold fold(run_);
    ScanOptions scan;
    scan.unit = ScanUnit::kQueries;
    scan.queries_per_block = kQueriesPerBlock;
    std::size_t done = 0;
    scan_heads(
        run_.set(), run_.scoring(), run_.resources(), run_.examples(), wanted, scan,
        [&](const ScanBlock& block) {
          return rows_of(block, scales != nullptr ? &scales->at(block.head) : nullptr);
        },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
          fold.take(block, static_cast<const RowValues&>(*result));
          if (options_.progress && block.example > done)
            options_.progress(static_cast<std::int64_t>(block.example - done));
          done = block.example;
        });
    if (scales == nullptr) {
      result_.rows = fold.rows;
      result_.left_out = fold.left_out;
    }
    return fold.finish();
  }

  void first_pass() {
    const HeadGroups groups = pass(nullptr);
    for (auto& [index, head] : heads_) {
      if (!head.fit.reason.empty()) continue;
      const auto found = groups.find(index);
      begin(head, found != groups.end() ? found->second : std::vector<GroupMeans>(), options_);
    }
  }

  bool next_pass() {
    std::map<std::int64_t, GroupScales> scales;
    for (const auto& [index, head] : heads_) {
      if (!head.open()) continue;
      GroupScales& of_head = scales[index];
      of_head.resize(head.searches.rbegin()->first + 1);
      for (const auto& [group, search] : head.searches)
        of_head[group].assign(search.points().begin(), search.points().end());
    }
    if (scales.empty()) return false;
    const HeadGroups groups = pass(&scales);
    for (const auto& [index, of_head] : scales) {
      const auto found = groups.find(index);
      for (auto& [group, search] : heads_.at(index).searches) {
        if (search.state() != State::kOpen) continue;
        std::vector<double> values(search.points().size(), HeadFit::kNone);
        if (found != groups.end() && group < found->second.size())
          for (std::size_t i = 0; i < found->second[group].log_length.size(); ++i)
            values[i] = found->second[group].log_length[i].value();
        search.update(values);
      }
    }
    return true;
  }

  void warn() {
    if (result_.left_out > 0)
      result_.warnings.push_back(
          fmt::format("{} of {} rows of attention left out: a zero or non-finite vector", result_.left_out,
                      result_.rows));
    for (const HeadFit& fit : result_.heads) {
      const LayerModel& layer = run_.set().layer(fit.layer);
      const auto file = static_cast<std::size_t>(run_.set().file_of_layer(fit.layer));
      const TaskHeader& task = run_.set().files()[file].tasks()[0];
      const int group = task.query_heads / task.kv_heads;
      const ResolvedModel& model = run_.set().model(static_cast<int>(file));
      if (model.grid(fit.layer, fit.head, 2).omega ==
          model.grid(fit.layer, fit.head / group * group, 2).omega)
        continue;
      result_.warnings.push_back(
          fmt::format("layer {}: query heads that share keys have different frequencies, and so different xi",
                      layer.layer));
      return;
    }
  }

  const CacheRun& run_;
  const AdaropeOptions& options_;
  AdaropeFit result_;
  std::map<std::int64_t, HeadSearch> heads_;
};

}  // namespace

void require_full_coverage(const CacheRun& run, const std::string& what_for, const std::string& hint) {
  for (const SetExample* example : run.examples())
    for (const ExamplePart& part : example->parts) {
      const ActivationFile& file = run.set().files()[static_cast<std::size_t>(part.file)];
      const TaskHeader& task = file.tasks()[static_cast<std::size_t>(part.task)];
      if (!task.full_coverage)
        throw input_error(file.path(), "/tasks/" + task.name,
                          "key_coverage = \"full\": " + what_for + " needs every key of the context",
                          "\"sampled\"", hint);
    }
}

AdaropeFit fit_adarope(const CacheRun& run, const AdaropeOptions& options) {
  require_full_coverage(run, "attention over all keys",
                        "capture every key, or use --use or --window-task, which do with sampled ones");
  return AdaropeRun(run, options).fit();
}

}  // namespace rope
