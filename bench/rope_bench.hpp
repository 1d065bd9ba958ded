#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coprocess.hpp"
#include "machine.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "timing.hpp"

namespace rope::bench {

/// What the sections of rope_bench share.
struct Session {
  int rounds = 5;      ///< alternations of all contenders; the best of each counts
  bool quick = false;  ///< fewer rows
  Machine machine = this_machine();
  double peak32 = 0, peak64 = 0;  ///< multiply-adds per ns and thread: the largest seen so far in this run
  std::vector<std::pair<std::string, std::unique_ptr<Coprocess>>> coprocesses;  ///< by name of their rows
  std::ofstream json;

  /// Appends a record to the JSON lines, where they are asked for.
  void record(const nlohmann::ordered_json& row) {
    if (json.is_open()) json << row.dump() << '\n' << std::flush;
  }
  /// Measures the peaks again.
  void renew_peaks();
};

/// Outputs of a sweep that are asked for together.
struct Output {
  const char* name;
  spectral::SweepRequest request;
};
inline const Output kTogether = {"mean+max+E_2", {true, true, true, false, false, 0.0, {}}};
inline const Output kOutputs[] = {
    kTogether,
    {"mean", {true, false, false, false, false, 0.0, {}}},
    {"mean+max", {true, true, false, false, false, 0.0, {}}},
    {"E_2", {false, false, true, false, false, 0.0, {}}},
    {"reversals", {false, false, false, false, true, 0.0, {}}},
    {"E_2, softcap", {false, false, true, false, false, 50.0, {}}},
    {"E_2 at 5 scales", {false, false, true, false, false, 0.0, {0.5, 0.7, 1.5, 2.0}}},
    {"aliasing", {false, false, false, true, false, 0.0, {}}},
};

/// omega_n = base^(-n/h).
std::vector<double> geometric_grid(std::size_t h, double base = 1e6);
/// Uniform coefficients, fixed seed, of root mean square U = norm: scores of about norm / sqrt(2), that
/// is 4.6.
spectral::CoefficientBatch random_batch(std::size_t h, std::size_t pairs, double norm = 6.5);

/// Best time of one thread, nanoseconds per pair-distance.
double sweep_ns(const std::vector<double>& omega, std::int64_t window, std::size_t pairs,
                const spectral::SweepRequest& request, int repeats, Clock clock = Clock::kProcessor);

void bench_sweeps(Session& session);
void bench_targets(Session& session);
void bench_threads(Session& session);
void bench_scaling(Session& session);
void bench_grids(Session& session);
void bench_sizes(Session& session);
void bench_moments(Session& session);
void bench_memory(Session& session);
/// The child of bench_memory: does one sweep and prints bytes of working memory. argv as main gets it.
int memory_case(int argc, char** argv);
/// Throws std::runtime_error unless the baselines compute what the sweep computes.
void check_baselines(Session& session);

}  // namespace rope::bench
