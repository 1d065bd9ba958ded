#include "profiler/example_reader.hpp"

#include <algorithm>

#include "profiler/phase_clock.hpp"

namespace rope {
namespace {

constexpr std::size_t kPhasesKept = 4;  // grids that alternate from layer to layer
/// Vectors of neighbouring layers that are read at once: calls of the library cost as much as some KB, and
/// memory of more than 128 KiB comes in new pages each time.
constexpr std::int64_t kJoinedBytes = 96 << 10;

struct HeldPhases {
  HeldPhases(MemoryLease granted, std::shared_ptr<const PartSlots> of, const spectral::LaneMap& lanes)
      : lease(std::move(granted)), slots(std::move(of)), phases(*slots, lanes) {}
  MemoryLease lease;
  std::shared_ptr<const PartSlots> slots;
  SlotPhases phases;
};

std::int64_t as_bytes(std::size_t count) { return static_cast<std::int64_t>(count); }

}  // namespace

std::int64_t layer_window(const ScoringOptions& options, const LayerModel& layer, const SetExample& example) {
  const std::int64_t window = options.window > 0 ? options.window : example.window;
  return options.window_cap && layer.window > 0 ? std::min(window, layer.window) : window;
}

/// One file's share of an example.
struct ExampleReader::Part {
  const SetExample* example;
  const ExamplePart* place;
  const ActivationFile* file;
  const TaskHeader* task;
  std::span<const HeadWork> work;
  std::shared_ptr<const PartSlots> slots;

  int group() const { return task->query_heads / task->kv_heads; }
};

/// Neighbouring key heads of one layer, all wanted, or all those of neighbouring layers.
struct ExampleReader::Piece {
  int slot, layers, first_kv, end_kv;

  int key_heads() const { return end_kv - first_kv; }
};

std::int64_t ExampleReader::kv_head_bytes(const TaskHeader& task) const {
  const auto key = task.key_slots * as_bytes(element_size(task.key_type));
  const auto query =
      task.query_slots * as_bytes(element_size(task.query_type)) * (task.query_heads / task.kv_heads);
  return task.head_dim * (key + query);
}

std::int64_t ExampleReader::bytes_of(const SetExample& example) const {
  const auto heads = static_cast<std::int64_t>(set_->heads().size());
  std::int64_t lanes = 0, slots = 0;
  for (const ExamplePart& part : example.parts) {
    const TaskHeader& task =
        set_->files()[static_cast<std::size_t>(part.file)].tasks()[static_cast<std::size_t>(part.task)];
    lanes = std::max<std::int64_t>(lanes, task.head_dim);
    slots += task.query_slots + task.key_slots + task.triplet_slots;
  }
  constexpr std::int64_t kSlotBytes = 48;
  const std::int64_t usage =
      options_->usage ? lanes * as_bytes(sizeof(double)) : 0;  // two, of half the lanes
  return heads * (as_bytes(sizeof(HeadScores)) + usage) + slots * kSlotBytes;
}

bool ExampleReader::read(const SetExample& example, std::span<const HeadWork> work, const Emit& emit,
                         const std::function<void()>& before_wait) {
  for (const ExamplePart& place : example.parts) {
    const ActivationFile& file = set_->files()[static_cast<std::size_t>(place.file)];
    Part part{&example, &place, &file, &file.tasks()[static_cast<std::size_t>(place.task)], work, nullptr};
    const bool going_on = read_part(part, emit, before_wait);
    phases_.clear();
    if (!going_on) return false;
  }
  return true;
}

bool ExampleReader::wanted(const Part& part, int slot, int kv) const {
  const int layer = part.task->layers[static_cast<std::size_t>(slot)];
  const std::int64_t first_head = set_->first_head(layer);
  if (!set_->model(part.place->file).layers()[static_cast<std::size_t>(layer)].rotates || first_head < 0)
    return false;
  for (int head = kv * part.group(); head < (kv + 1) * part.group(); ++head)
    if (part.work[static_cast<std::size_t>(first_head + head)] != HeadWork::kNone) return true;
  return false;
}

bool ExampleReader::read_part(Part& part, const Emit& emit, const std::function<void()>& before_wait) {
  const TaskHeader& task = *part.task;
  const int layers = static_cast<int>(task.layers.size()), all = task.kv_heads;
  const std::int64_t head_bytes = std::max<std::int64_t>(1, kv_head_bytes(task));
  const int most = static_cast<int>(std::clamp<std::int64_t>(piece_ / head_bytes, 1, all));
  const std::int64_t most_layers = std::min(piece_, kJoinedBytes) / (head_bytes * all);
  // Where the wanted key heads from `kv` on end, `end` at most.
  const auto end_of_run = [&](int slot, int kv, int end) {
    while (kv < end && wanted(part, slot, kv)) ++kv;
    return kv;
  };
  const auto read = [&](const Piece& piece) {
    if (!part.slots)
      part.slots = std::make_shared<PartSlots>(make_part_slots(
          part.file->read_slots(task, part.place->row, part.example->window, options_->window == 0),
          task.full_coverage));
    return read_piece(part, piece, emit, before_wait);
  };
  for (int slot = 0; slot < layers;) {
    int end = slot;
    while (end < layers && end - slot < most_layers && end_of_run(end, 0, all) == all) ++end;
    if (end - slot > 1) {
      if (!read({slot, end - slot, 0, all})) return false;
      slot = end;
      continue;
    }
    for (int kv = 0; kv < all;) {
      const int run_end = end_of_run(slot, kv, std::min(all, kv + most));
      if (run_end > kv && !read({slot, 1, kv, run_end})) return false;
      kv = std::max(run_end, kv + 1);
    }
    ++slot;
  }
  return true;
}

std::int64_t ExampleReader::phase_bytes(const Part& part, const std::vector<const Grid*>& grids) const {
  std::int64_t bytes = 0;
  for (const Grid* grid : grids)
    if (!find_phases(*grid)) bytes += SlotPhases::bytes_of(*part.slots, grid->lanes.omega.size());
  return bytes;
}

std::shared_ptr<const SlotPhases> ExampleReader::find_phases(const Grid& grid) const {
  for (const auto& [known, phases] : phases_)
    if (known == &grid) return phases;
  return nullptr;
}

// Phases of some grids, shared by all their heads; what has to be made takes its memory from `lease`.
void ExampleReader::make_phases(const Part& part, const std::vector<const Grid*>& grids, MemoryLease& lease) {
  for (const Grid* grid : grids) {
    if (find_phases(*grid)) continue;
    const auto held = std::make_shared<HeldPhases>(
        lease.split(SlotPhases::bytes_of(*part.slots, grid->lanes.omega.size())), part.slots, grid->lanes);
    phases_.emplace_back(grid, std::shared_ptr<const SlotPhases>(held, &held->phases));
  }
}

// What the job needs to score a changed head.
void ExampleReader::change(HeadJob& job, const Grid& stored, const std::vector<double>& scale) const {
  job.stored_phases = find_phases(stored);  // null where nothing was turned
  if (options_->fixed_norm) {
    job.unchanged = job.setting;
    job.unchanged->lanes = &stored.lanes;
    job.unchanged->stored_phases = job.stored_phases.get();
  }
  if (job.setting.lanes != &stored.lanes) {
    job.setting.stored_lanes = &stored.lanes;
    job.setting.stored_phases = job.stored_phases.get();
  }
  if (scale.empty()) return;
  for (const int pair : job.setting.lanes->pair)
    job.query_scale.push_back(scale[static_cast<std::size_t>(pair)]);
  job.setting.query_scale = job.query_scale.data();
}

bool ExampleReader::read_piece(const Part& part, const Piece& piece, const Emit& emit,
                               const std::function<void()>& before_wait) {
  using Side = ActivationFile::Side;
  const TaskHeader& task = *part.task;
  const int group = part.group();
  const ModelHeader& header = part.file->model();
  const bool unturns = header.query_rotation == Rotation::kPost || header.key_rotation == Rotation::kPost;

  struct Wanted {
    const LayerModel* layer;
    int place, head;            // its layer in the piece, its number there
    std::int64_t index;         // in the set
    const Grid *grid, *scored;  // as stored, and as changed
    std::vector<double> scale;  // [h] of the change
  };
  std::vector<Wanted> wanted;
  std::vector<const Grid*> used;  // grids whose phases are needed
  std::int64_t bytes = piece.layers * piece.key_heads() * kv_head_bytes(task);
  for (int place = 0; place < piece.layers; ++place) {
    const int layer = task.layers[static_cast<std::size_t>(piece.slot + place)];
    const LayerModel& facts = set_->model(part.place->file).layers()[static_cast<std::size_t>(layer)];
    for (int head = piece.first_kv * group; head < piece.end_kv * group; ++head) {
      const std::int64_t index = set_->first_head(layer) + head;
      if (part.work[static_cast<std::size_t>(index)] == HeadWork::kNone) continue;
      const Grid& grid = grids_->grid(part.place->file, layer, head, part.example->window);
      HeadChange change;
      if (options_->changes && !grid.lanes.omega.empty())
        change = options_->changes->of(facts, head, part.example->window, grid.frequencies);
      const Grid& scored = grids_->with_still_pairs(part.place->file, grid, change.frozen);
      if (scored.lanes.omega.empty()) continue;  // a head that does not rotate has no scores
      wanted.push_back({&facts, place, head, index, &grid, &scored, std::move(change.scale)});
      bytes += HeadJob::bytes_of(*part.slots, scored.lanes.omega.size());
      for (const Grid* turning : {&scored, unturns ? &grid : &scored})
        if (std::find(used.begin(), used.end(), turning) == used.end()) used.push_back(turning);
    }
  }
  if (wanted.empty()) return true;
  std::int64_t taken = bytes + phase_bytes(part, used);
  if (!gate_->try_take(taken)) {
    before_wait();
    phases_.clear();  // their memory, too, comes back in the end
    taken = bytes + phase_bytes(part, used);
    if (!gate_->take(taken)) return false;
  }
  MemoryLease lease(*gate_, taken);
  const auto vectors = std::make_shared<HeldVectors>();
  part.file->fetch_block(task, Side::kQuery, part.place->row,
                         {piece.slot, piece.layers, piece.first_kv * group, piece.key_heads() * group},
                         vectors->query);
  part.file->fetch_block(task, Side::kKey, part.place->row,
                         {piece.slot, piece.layers, piece.first_kv, piece.key_heads()}, vectors->key);
  bytes_read_ += vectors->query.size() + vectors->key.size();

  make_phases(part, used, lease);
  std::vector<std::shared_ptr<HeadJob>> jobs;
  for (const Wanted& w : wanted) {
    const auto factor = [&](Rotation rotation) {
      return rotation == Rotation::kPre ? w.grid->frequencies.attention_factor : 1.0;
    };
    auto job = std::make_shared<HeadJob>();
    const int key = w.place * piece.key_heads() + w.head / group - piece.first_kv;
    const int query = (w.place * piece.key_heads() - piece.first_kv) * group + w.head;
    job->setting = {w.layer,
                    &w.scored->lanes,
                    {&vectors->query, query, header.query_rotation, factor(header.query_rotation)},
                    {&vectors->key, key, header.key_rotation, factor(header.key_rotation)}};
    job->vectors = vectors;
    job->slots = part.slots;
    job->grid = grids_->at_window(*w.scored, layer_window(*options_, *w.layer, *part.example));
    if (options_->near_far)
      job->order_grid =
          options_->near_far_window > 0 ? grids_->at_window(*w.scored, options_->near_far_window) : job->grid;
    job->work = part.work[static_cast<std::size_t>(w.index)];
    job->options = options_;
    job->phases = find_phases(*w.scored);
    if (w.scored != w.grid || !w.scale.empty()) change(*job, *w.grid, w.scale);
    job->open();
    jobs.push_back(std::move(job));
  }
  vectors->lease = std::move(lease);  // what the phases left of it
  if (phases_.size() > kPhasesKept) phases_.erase(phases_.begin(), phases_.end() - kPhasesKept);
  for (std::size_t k = 0; k < jobs.size(); ++k) emit(std::move(jobs[k]), wanted[k].index);
  return true;
}

}  // namespace rope
