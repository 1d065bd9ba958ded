#include "profiler/length_run.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "profiler/attention_summary.hpp"
#include "profiler/error.hpp"
#include "profiler/example_reader.hpp"
#include "spectral/virtual_length.hpp"

namespace rope {
namespace {

constexpr std::int64_t kQueryBlock = 512;  // queries that share a pass over the keys

const TaskHeader& header_of(const ActivationSet& set, const ExamplePart& part) {
  return set.files()[static_cast<std::size_t>(part.file)].tasks()[static_cast<std::size_t>(part.task)];
}

/// The part of an example that stores a layer; null where none does.
const ExamplePart* part_of(const ActivationSet& set, const SetExample& example, int layer) {
  for (const ExamplePart& part : example.parts) {
    const std::vector<int>& layers = header_of(set, part).layers;
    if (std::binary_search(layers.begin(), layers.end(), layer)) return &part;
  }
  return nullptr;
}

bool fully_covered(const ActivationSet& set, const SetExample& example) {
  return std::all_of(example.parts.begin(), example.parts.end(),
                     [&](const ExamplePart& part) { return header_of(set, part).full_coverage; });
}

/// Examples whose attention rows are known, and the task of each.
struct Covered {
  std::vector<const SetExample*> examples;
  std::vector<std::size_t> task;
};

[[noreturn]] void refuse(const ActivationSet& set, const SetTask& task) {
  for (const SetExample& example : task.examples)
    for (const ExamplePart& part : example.parts)
      if (!header_of(set, part).full_coverage)
        throw input_error(
            set.files()[static_cast<std::size_t>(part.file)].path(),
            "/tasks/" + task.name + ": attribute key_coverage", "\"full\" (--attention)", "\"sampled\"",
            "attention weights take the keys of all tokens: capture those, leave the task out with "
            "--tasks, or do without --attention");
  throw std::logic_error("refuse: a task that has all its keys");
}

// Tasks by coverage; an error where attention needs what is not there.
Covered covered_examples(const CacheRun& run, const LengthOptions& options, LengthReport& report) {
  Covered covered;
  for (std::size_t t = 0; t < run.set().tasks().size(); ++t) {
    const SetTask& task = run.set().tasks()[t];
    const bool full = std::all_of(task.examples.begin(), task.examples.end(), [&](const SetExample& example) {
      return fully_covered(run.set(), example);
    });
    if (!full && options.attention == LengthOptions::Attention::kRequired) refuse(run.set(), task);
    (full ? report.covered : report.sampled).push_back(task.name);
    for (const SetExample& example : task.examples) {
      if (!full) break;
      covered.examples.push_back(&example);
      covered.task.push_back(t);
    }
  }
  return covered;
}

/// Tables of the grid that a thread had last.
const spectral::VirtualLengthPlan& plan_of(const WindowedGrid& grid) {
  struct Kept {
    std::vector<double> omega;
    std::vector<char> high;
    std::optional<spectral::VirtualLengthPlan> plan;
  };
  thread_local Kept kept;
  const std::vector<double>& omega = grid.grid().lanes.omega;
  if (!kept.plan || kept.omega != omega || kept.high != grid.high()) {
    kept.omega = omega;
    kept.high = grid.high();
    kept.plan.emplace(omega, kept.high);
  }
  return *kept.plan;
}

/// Sums over the valid pairs of a block, or of a head.
struct VirtualPart : ScanResult {
  std::vector<double> length, slow;  // [orders]
  std::int64_t pairs = 0;
  void add(const VirtualPart& other) {
    length.resize(other.length.size(), 0.0);
    slow.resize(other.slow.size(), 0.0);
    for (std::size_t i = 0; i < length.size(); ++i) {
      length[i] += other.length[i];
      slow[i] += other.slow[i];
    }
    pairs += other.pairs;
  }
};

std::unique_ptr<VirtualPart> virtual_part(const ScanBlock& block, const spectral::LengthOrders& orders) {
  spectral::CoefficientBatch batch;
  const PairPart part = block.job->pair_part(block.index);
  const std::vector<PairBlock> blocks = score_pairs(std::span(&part, 1), block.job->grid->high(), batch);
  const spectral::VirtualLengths lengths = virtual_lengths(
      plan_of(*block.job->grid), batch, block.job->grid->window(), orders, block.job->setting.layer->softcap);
  auto sums = std::make_unique<VirtualPart>();
  sums->length.assign(orders.size(), 0.0);
  sums->slow.assign(orders.size(), 0.0);
  for (std::size_t lane = 0; lane < blocks[0].norm.size(); ++lane) {
    if (blocks[0].norm[lane] == 0) continue;
    ++sums->pairs;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      sums->length[i] += lengths.all[i][lane];
      sums->slow[i] += lengths.slow[i][lane];
    }
  }
  return sums;
}

/// Means of virtual lengths per task and head.
class VirtualTable {
 public:
  VirtualTable(const CacheRun& run, std::size_t orders)
      : run_(run), orders_(orders), cells_(run.set().tasks().size() * run.set().heads().size()) {}

  void add(const ScanBlock& block, const VirtualPart& part) {
    head_.add(part);
    if (!block.last) return;
    if (head_.pairs > 0) {
      Cell& cell = at(run_.task_index(block.example), static_cast<std::size_t>(block.head));
      cell.length.resize(orders_);
      cell.slow.resize(orders_);
      cell.pairs += head_.pairs;
      for (std::size_t i = 0; i < orders_; ++i) {
        cell.length[i].add(head_.length[i] / static_cast<double>(head_.pairs));
        cell.slow[i].add(head_.slow[i] / static_cast<double>(head_.pairs));
      }
    }
    head_ = VirtualPart();
  }

  void list(std::vector<VirtualLengthRow>& rows) {
    for (std::size_t t = 0; t < run_.set().tasks().size(); ++t)
      for (std::size_t n = 0; n < run_.heads().size(); ++n) {
        const Cell& cell = at(t, n);
        for (std::size_t i = 0; i < cell.length.size(); ++i)
          rows.push_back({static_cast<int>(t), run_.set().heads()[n].layer, run_.set().heads()[n].head, i,
                          cell.length[i].value(), cell.slow[i].value(), cell.pairs});
      }
  }

  /// Means over tasks of one head.
  void average(std::size_t head, LengthHeadRow& row) {
    for (std::size_t i = 0; i < orders_; ++i) {
      Mean length, slow;
      for (std::size_t t = 0; t < run_.set().tasks().size(); ++t) {
        const Cell& cell = at(t, head);
        if (cell.length.empty()) continue;
        length.add(cell.length[i].value());
        slow.add(cell.slow[i].value());
      }
      row.length.push_back(length.value());
      row.slow.push_back(slow.value());
    }
  }

 private:
  struct Cell {
    std::vector<Mean> length, slow;  // [orders]; empty without a valid pair
    std::int64_t pairs = 0;
  };
  Cell& at(std::size_t task, std::size_t head) { return cells_[task * run_.set().heads().size() + head]; }

  const CacheRun& run_;
  std::size_t orders_;
  std::vector<Cell> cells_;
  VirtualPart head_;  // the head under way
};

struct AttentionResult : ScanResult {
  AttentionPart part;
};

AttentionRequest request_for(const CacheRun& run, const LengthOptions& options, const ScanBlock& block,
                             const SetExample& example) {
  const SetHead& head = run.set().heads()[static_cast<std::size_t>(block.head)];
  const LayerModel& layer = *block.job->setting.layer;
  AttentionRequest request;
  request.orders = options.orders;
  request.reach = attention_reach(layer, layer_window(run.scoring(), layer, example));
  request.local = options.local;
  request.offsets = options.offsets;
  const ExamplePart* part = part_of(run.set(), example, head.layer);
  const ModelHeader& model = run.set().files()[static_cast<std::size_t>(part->file)].model();
  if (!model.sink_logit.empty())
    request.sink_logit =
        model.sink_logit[static_cast<std::size_t>(head.layer * model.num_query_heads + head.head)];
  return request;
}

/// Means of attention rows per head.
class AttentionTable {
 public:
  AttentionTable(std::size_t heads, std::size_t orders) : means_(heads, AttentionMeans(orders)) {}

  void add(const ScanBlock& block, std::size_t task, const AttentionPart& part) {
    if (task != task_) end_task();
    task_ = task;
    head_.add(part);
    if (!block.last) return;
    means_[static_cast<std::size_t>(block.head)].add(head_);
    head_ = AttentionPart();
  }

  void end_task() {
    for (AttentionMeans& head : means_) head.end_task();
  }

  const AttentionMeans& head(std::size_t n) const { return means_[n]; }

 private:
  std::vector<AttentionMeans> means_;  // [set.heads()]
  AttentionPart head_;                 // the head under way
  std::size_t task_ = 0;
};

/// Reports each example when the first block of a later one is folded.
class ProgressOfScan {
 public:
  ProgressOfScan(const LengthProgress& progress, std::int64_t total) : progress_(progress), total_(total) {}
  void at(std::int64_t done) {
    while (done_ < done) progress_(++done_, total_);
  }

 private:
  const LengthProgress& progress_;
  std::int64_t total_, done_ = 0;
};

}  // namespace

LengthReport run_length(const CacheRun& run, const LengthOptions& options, const LengthProgress& progress) {
  LengthReport report;
  const Covered covered = covered_examples(run, options, report);
  const auto examples = static_cast<std::int64_t>(run.examples().size());
  ProgressOfScan shown(progress, (options.virtual_lengths ? examples : 0) +
                                     static_cast<std::int64_t>(covered.examples.size()));
  std::int64_t before = 0;

  VirtualTable lengths(run, options.orders.size());
  if (options.virtual_lengths) {
    run.scan(
        {ScanUnit::kPairs}, [&](const ScanBlock& block) { return virtual_part(block, options.orders); },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
          shown.at(static_cast<std::int64_t>(block.example));
          lengths.add(block, static_cast<const VirtualPart&>(*result));
        });
    before = examples;
    shown.at(before);
    lengths.list(report.lengths);
  }

  AttentionTable attention(run.heads().size(), options.orders.size());
  if (!covered.examples.empty()) {
    scan_heads(
        run.set(), run.scoring(), run.resources(), covered.examples, run.heads(),
        {ScanUnit::kQueries, kQueryBlock},
        [&](const ScanBlock& block) {
          auto result = std::make_unique<AttentionResult>();
          HeadVectors vectors;
          vectors.assign(block.job->setting, *block.job->slots, block.job->phases.get());
          result->part = summarise_rows(vectors, block.first, block.count,
                                        request_for(run, options, block, *covered.examples[block.example]));
          return result;
        },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
          shown.at(before + static_cast<std::int64_t>(block.example));
          attention.add(block, covered.task[block.example],
                        static_cast<const AttentionResult&>(*result).part);
        });
    attention.end_task();
    shown.at(before + static_cast<std::int64_t>(covered.examples.size()));
  }

  for (std::size_t n = 0; n < run.heads().size(); ++n) {
    if (run.heads()[n] == 0) continue;
    const SetHead& head = run.set().heads()[n];
    const LayerModel& layer = run.set().layer(head.layer);
    LengthHeadRow row;
    row.layer = head.layer;
    row.head = head.head;
    row.window = layer.window;
    row.softcap = layer.softcap > 0;
    if (options.virtual_lengths) lengths.average(n, row);
    if (!attention.head(n).empty()) {
      row.attention = attention.head(n).result(options);
      attention.head(n).list_groups(head.layer, head.head, report.groups);
    }
    report.heads.push_back(std::move(row));
  }
  return report;
}

}  // namespace rope
