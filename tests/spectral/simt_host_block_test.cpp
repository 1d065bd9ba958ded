#include "spectral/simt/host_block.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace rope::test {
namespace {

using namespace spectral::simt;

constexpr ThreadOrder kOrders[] = {ThreadOrder::kForward, ThreadOrder::kReversed, ThreadOrder::kShuffled};

/// Ways to break the kernel below.
enum class Fault { kNone, kPlainAdd, kMergedPhase, kMissingWrite, kOutOfRange, kOutside, kTwoOwners };

/// out[block * kThreads + t] = sum of the block's kThreads inputs, up to and including t. Slow on purpose:
/// every thread reads what others wrote.
template <Fault kFault>
struct PrefixSum {
  static constexpr int kThreads = 64;
  static constexpr int kBlocksPerSm = 1;
  struct Args {
    const float* in;
    float* out;
  };
  template <class Block>
  struct Shared {
    typename Block::template Array<float> values, total;
    template <class Arena>
    void lay_out(Arena& arena, const Args&) {
      arena.take(values, kThreads);
      arena.take(total, 4);
    }
  };

  template <class Block>
  static void run(Block& block, Shared<Block>& shared, const Args& args) {
    typename Block::template PerThread<float> sum;
    const int first = block.x() * kThreads;
    const auto load = [&](int t) {
      if (kFault == Fault::kMissingWrite && t == 17) return;
      shared.values[t] = args.in[first + t];
    };
    const auto add = [&](int t) {
      sum[t] = 0;
      for (int i = 0; i <= t; ++i) sum[t] += shared.values[i];
      if (kFault == Fault::kOutOfRange && t == 3) sum[t] += shared.values[kThreads];
    };
    if (kFault == Fault::kMergedPhase) {
      block.phase([&](int t) {
        load(t);
        add(t);
      });
    } else {
      block.phase(load);
      block.phase(add);
    }
    if (kFault == Fault::kPlainAdd) {
      block.phase([&](int t) {
        if (t == 0) shared.total[0] = 0.0F;
      });
      block.phase([&](int t) { shared.total[0] += args.in[first + t]; });  // right in any order, and a race
    }
    if (kFault == Fault::kOutside) shared.total[1] = 1.0F;
    block.phase(
        [&](int t) { block.store(args.out + first + (kFault == Fault::kTwoOwners ? t / 2 : t), sum[t]); });
  }
};

template <Fault kFault>
HostReport run_prefix_sum(ThreadOrder order, std::vector<float>& out) {
  using Kernel = PrefixSum<kFault>;
  std::vector<float> in(3 * Kernel::kThreads);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 7) - 2.0F;
  out.assign(in.size(), poison<float>());
  return run_on_host<Kernel>(3, 1, {in.data(), out.data()}, order);
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("host block: a sound kernel gives the same result in every thread order, and no finding") {
  for (const ThreadOrder order : kOrders) {
    std::vector<float> out;
    const HostReport report = run_prefix_sum<Fault::kNone>(order, out);
    CHECK_MESSAGE(report.clean(), report.text());
    CHECK(report.phases == 9);
    float expected = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % 64 == 0) expected = 0;
      expected += static_cast<float>(i % 7) - 2.0F;
      CHECK(out[i] == expected);
    }
  }
}

TEST_CASE("host block: broken kernels are caught in every thread order") {
  for (const ThreadOrder order : kOrders) {
    std::vector<float> out;
    HostReport report = run_prefix_sum<Fault::kPlainAdd>(order, out);
    CHECK(report.races == 3 * 3 * 63);  // 3 blocks, 63 threads: read, write, write beside a reader
    CHECK(report.unwritten == 0);
    report = run_prefix_sum<Fault::kMergedPhase>(order, out);
    CHECK(report.races > 0);
    report = run_prefix_sum<Fault::kMissingWrite>(order, out);
    CHECK(report.unwritten == 3 * (64 - 17));
    CHECK(std::isnan(out[17]));
    CHECK(std::isnan(out[63]));
    CHECK(!std::isnan(out[16]));
    report = run_prefix_sum<Fault::kOutOfRange>(order, out);
    CHECK(report.out_of_range == 3);
    CHECK(std::isnan(out[3]));
    report = run_prefix_sum<Fault::kOutside>(order, out);
    CHECK(report.outside == 3);
    report = run_prefix_sum<Fault::kTwoOwners>(order, out);
    CHECK(report.stored_twice == 3 * 32);
    CHECK(report.first.find("stored by two threads") != std::string::npos);
  }
}

TEST_CASE("host block: merged phases read poison in at least one order") {
  std::vector<float> out;
  CHECK(run_prefix_sum<Fault::kMergedPhase>(ThreadOrder::kForward, out).unwritten == 0);
  CHECK(run_prefix_sum<Fault::kMergedPhase>(ThreadOrder::kReversed, out).unwritten > 0);
  CHECK(std::isnan(out[63]));
  CHECK(run_prefix_sum<Fault::kMergedPhase>(ThreadOrder::kShuffled, out).unwritten > 0);
}

TEST_CASE("host block: thread orders are permutations") {
  for (const ThreadOrder order : kOrders) {
    std::vector<int> seen(97);
    for (int t : thread_order(order, 97, 5)) ++seen[static_cast<std::size_t>(t)];
    for (int count : seen) CHECK(count == 1);
  }
  CHECK(thread_order(ThreadOrder::kReversed, 3, 0) == std::vector<int>{2, 1, 0});
  CHECK(thread_order(ThreadOrder::kShuffled, 64, 1) != thread_order(ThreadOrder::kForward, 64, 1));
  CHECK(thread_order(ThreadOrder::kShuffled, 64, 1) == thread_order(ThreadOrder::kShuffled, 64, 1));
  CHECK(thread_order(ThreadOrder::kShuffled, 64, 1) != thread_order(ThreadOrder::kShuffled, 64, 2));
}

TEST_CASE("block: room in shared memory starts on boundaries of 16 bytes") {
  using Kernel = PrefixSum<Fault::kNone>;
  CHECK(shared_bytes<Kernel>({nullptr, nullptr}) == 64 * 4 + 16);
  DeviceArena arena;
  DeviceArray<float> floats;
  DeviceArray<double> doubles;
  arena.take(floats, 3);
  CHECK(arena.used() == 16);
  arena.take(doubles, 3);
  CHECK(arena.used() == 48);
}

TEST_CASE("block: powers of two") {
  for (int e : {-1022, -126, -1, 0, 1, 127, 1023}) CHECK(power_of_two(e) == std::ldexp(1.0, e));
  CHECK(exp2_fast(-127.0F) == 0.0F);
  CHECK(exp2_fast(3.0F) == 8.0F);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
