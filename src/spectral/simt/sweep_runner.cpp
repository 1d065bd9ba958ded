#include "spectral/simt/sweep_runner.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "spectral/simt/plan_buffer.hpp"
#include "spectral/simt/sweep_memory.hpp"

namespace rope::spectral::simt {
namespace {

constexpr std::size_t kMostInput = std::size_t{24} << 20;      // bytes of one block's pinned memory
constexpr std::size_t kMostPartials = std::size_t{512} << 20;  // bytes of one block's device memory

int groups_of(int size, int pairs) { return (pairs + size - 1) / size; }

/// Lanes [first, first + count) of a batch.
struct Lanes {
  int first = 0, count = 0;
};

}  // namespace

struct SweepRunner::Device {
  std::unique_ptr<SweepDevice> api;
  std::atomic<int> most_pairs{1 << 20};  ///< halved when memory runs out
  std::atomic<int> slots{SweepDevice::kStreams};
};

/// A stream of a device with its memory.
struct SweepRunner::Slot {
  Device* device = nullptr;
  int stream = 0;
  void *memory = nullptr, *pinned = nullptr;
  std::size_t memory_bytes = 0, pinned_bytes = 0;
  // The block in flight.
  Lanes lanes;
  SweepMemory layout;

  SweepDevice& api() const { return *device->api; }

  void release() noexcept {
    api().release(memory);
    api().release_pinned(pinned);
    memory = pinned = nullptr;
    memory_bytes = pinned_bytes = 0;
  }
  void reserve() {
    if (layout.device_bytes() <= memory_bytes && layout.pinned_bytes() <= pinned_bytes) return;
    release();
    memory = api().allocate(layout.device_bytes());
    memory_bytes = layout.device_bytes();
    pinned = api().allocate_pinned(layout.pinned_bytes());
    pinned_bytes = layout.pinned_bytes();
  }
};

/// One call of run(): its lanes go through the slots that it gets hold of.
class SweepRunner::Call {
 public:
  Call(SweepRunner& runner, const RunnerInput& input, SweepResult& result)
      : runner_(runner),
        input_(input),
        result_(result),
        plan_(*input.plan, input.omega),
        parts_(input.window, 2 * kOuterReach) {
    const int pairs = static_cast<int>(input.batch->n_pairs);
    todo_.push_back({0, pairs});
    // Every slot gets its share of a small batch.
    const int share = groups_of(kLanes, groups_of(runner.slots(), pairs)) * kLanes;
    most_pairs_ = std::min({share, runner.most_pairs_, fitting_pairs()});
  }

  /// After a failure too, nothing may still write to a slot's memory when another call gets it.
  ~Call() {
    for (Slot* slot : in_flight_) {
      try {
        slot->api().synchronize(slot->stream);
      } catch (const std::exception&) {  // a lost device fails for whoever comes next, too
      }
      runner_.return_slot(slot);
    }
  }

  void run() {
    while (!todo_.empty() || !in_flight_.empty()) {
      Slot* slot = todo_.empty() ? nullptr : runner_.take_slot(in_flight_.empty());
      if (slot) {
        in_flight_.push_back(slot);
        begin(*slot);
      } else {
        finish();
      }
    }
  }

 private:
  SweepMemory layout(int pairs) const {
    return {plan_.size(), pairs, static_cast<int>(input_.batch->n_freq), parts_.parts()};
  }

  int fitting_pairs() const {
    const SweepMemory none = layout(0), one = layout(1 << 10);
    const auto fit = [](std::size_t most, std::size_t fixed, std::size_t block) {
      return most > fixed ? (most - fixed) * (1 << 10) / (block - fixed) : 0;
    };
    const std::size_t pairs = std::min(fit(kMostInput, none.pinned_bytes(), one.pinned_bytes()),
                                       fit(kMostPartials, none.device_bytes(), one.device_bytes()));
    return static_cast<int>(std::clamp<std::size_t>(pairs / kLanes * kLanes, kLanes, 1 << 20));
  }

  Lanes take_lanes(int most) {
    Lanes& front = todo_.front();
    const Lanes taken{front.first, std::min(most, front.count)};
    front.first += taken.count;
    front.count -= taken.count;
    if (front.count == 0) todo_.pop_front();
    return taken;
  }

  /// Starts the next block on the newest slot. Out of memory returns the block and halves the next one; a
  /// slot that cannot have the smallest block is given up while its device has another one.
  void begin(Slot& slot) {
    slot.lanes = take_lanes(std::min(most_pairs_, slot.device->most_pairs.load()));
    slot.layout = layout(slot.lanes.count);
    try {
      slot.reserve();
      pack(slot);
      submit(slot);
    } catch (const OutOfDeviceMemory&) {
      slot.api().synchronize(slot.stream);
      slot.release();
      todo_.push_front(slot.lanes);
      in_flight_.pop_back();
      if (slot.lanes.count > kLanes) {
        slot.device->most_pairs = std::max(kLanes, slot.lanes.count / 2 / kLanes * kLanes);
        runner_.return_slot(&slot);
      } else if (--slot.device->slots == 0) {
        ++slot.device->slots;
        runner_.return_slot(&slot);
        throw;
      }
    }
  }

  void pack(Slot& slot) {
    const CoefficientBatch& batch = *input_.batch;
    const auto first = static_cast<std::size_t>(slot.lanes.first),
               n = static_cast<std::size_t>(slot.lanes.count);
    std::memcpy(slot.pinned, plan_.data(), plan_.size());
    auto* const values = static_cast<double*>(slot.layout.input_at(slot.pinned));
    double* to = values;
    const auto row = [&](const double* from) {
      std::memcpy(to, from + first, n * sizeof(double));
      to += n;
    };
    for (std::size_t f = 0; f < batch.n_freq; ++f) row(batch.re.data() + f * batch.stride);
    for (std::size_t f = 0; f < batch.n_freq; ++f) row(batch.im.data() + f * batch.stride);
    row(batch.constant.data());
    row(input_.scale.data());
    std::memcpy(to, input_.doubt.data() + first, n * sizeof(float));
    for (std::size_t p = 0; p < n; ++p) {
      if (!input_.skip[first + p]) continue;
      for (std::size_t f = 0; f < 2 * batch.n_freq + 1; ++f) values[f * n + p] = 0;
    }
  }

  template <class Kernel>
  typename Kernel::Args sweep_args(const Slot& slot, const SweepPartials& partials) const {
    typename Kernel::Args args;
    args.plan = plan_.tables(slot.memory);
    args.batch = slot.layout.input(slot.memory);
    args.out = partials;
    args.parts = parts_;
    args.differences = input_.differences;
    args.weights = input_.weights;
    return args;
  }

  void submit(Slot& slot) {
    SweepDevice& api = slot.api();
    const SweepMemory& at = slot.layout;
    const int groups = groups_of(kLanes, slot.lanes.count);
    const SweepPartials partials = at.results(at.partials_at(slot.memory), parts_.parts());
    api.upload(slot.stream, slot.memory, slot.pinned, at.upload_bytes());
    if (input_.differences || input_.weights)
      api.launch(slot.stream, groups, parts_.chunks, sweep_args<SweepKernel<false>>(slot, partials));
    if (input_.signs)
      api.launch(slot.stream, groups, parts_.chunks, sweep_args<SweepKernel<true>>(slot, partials));
    FoldKernel::Args fold;
    fold.pairs = slot.lanes.count;
    fold.parts = parts_.parts();
    fold.in = partials;
    fold.out = at.results(at.output_at(slot.memory), 1);
    fold.differences = input_.differences;
    fold.weights = input_.weights;
    fold.signs = input_.signs;
    api.launch(slot.stream, groups_of(FoldKernel::kThreads, slot.lanes.count), fold);
    api.download(slot.stream, at.output_at(slot.pinned), at.output_at(slot.memory), at.output_bytes());
  }

  /// Waits for the oldest block and puts its results in place.
  void finish() {
    Slot* slot = in_flight_.front();
    slot->api().synchronize(slot->stream);
    const SweepPartials r = slot->layout.results(slot->layout.output_at(slot->pinned), 1);
    const double window = static_cast<double>(input_.window);
    for (int i = 0; i < slot->lanes.count; ++i) {
      const auto p = static_cast<std::size_t>(slot->lanes.first) + static_cast<std::size_t>(i);
      const double unit = 0.69314718055994531 / input_.scale[p];
      if (input_.differences) {
        result_.mean_response[p] = r.sum[i] * unit / (window - 1);
        result_.response_max[p] = static_cast<double>(r.max[i]) * unit;
      }
      if (input_.weights)
        result_.effective_length[p] = std::clamp(r.weight[i] * r.weight[i] / r.square[i], 1.0, window);
      if (input_.signs) result_.reversals[p] = r.negative[i];
    }
    in_flight_.pop_front();
    runner_.return_slot(slot);
  }

  SweepRunner& runner_;
  const RunnerInput& input_;
  SweepResult& result_;
  PlanBuffer plan_;
  WindowParts parts_;
  int most_pairs_ = kLanes;
  std::deque<Lanes> todo_;
  std::deque<Slot*> in_flight_;
};

SweepRunner::SweepRunner(std::vector<std::unique_ptr<SweepDevice>> devices) {
  for (auto& api : devices) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->api = std::move(api);
  }
  // All first streams, then all second ones: a call spreads over the devices before it doubles up.
  for (int stream = 0; stream < SweepDevice::kStreams; ++stream) {
    for (auto& device : devices_) {
      slots_.push_back(std::make_unique<Slot>());
      slots_.back()->device = device.get();
      slots_.back()->stream = stream;
      free_.push_back(slots_.back().get());
    }
  }
}

SweepRunner::~SweepRunner() {
  for (auto& slot : slots_) slot->release();
}

SweepRunner::Slot* SweepRunner::take_slot(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) returned_.wait(lock, [this] { return !free_.empty(); });
  if (free_.empty()) return nullptr;
  Slot* slot = free_.front();
  free_.pop_front();
  return slot;
}

void SweepRunner::return_slot(Slot* slot) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  returned_.notify_one();
}

std::string SweepRunner::refusal(const CompressedPlan& plan) const {
  const PlanBuffer buffer(plan, plan.omega);
  SweepKernel<false>::Args args;
  args.plan = buffer.tables(buffer.data());
  const std::size_t needed = shared_bytes<SweepKernel<false>>(args);
  for (const auto& device : devices_) {
    const std::size_t there = device->api->shared_memory();
    if (needed > there)
      return device->api->name() + ": the grid needs " + std::to_string(needed) +
             " bytes of shared memory per block, there are " + std::to_string(there);
  }
  return {};
}

void SweepRunner::run(const RunnerInput& input, SweepResult& result) {
  const std::size_t pairs = input.batch->n_pairs;
  result = {};
  if (pairs == 0) return;
  if (input.differences) {
    result.mean_response.resize(pairs);
    result.response_max.resize(pairs);
  }
  if (input.weights) result.effective_length.resize(pairs);
  if (input.signs) result.reversals.resize(pairs);
  try {
    Call(*this, input, result).run();
  } catch (...) {
    result = {};
    throw;
  }
}

}  // namespace rope::spectral::simt
