#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/cache_writer.hpp"

namespace rope {

/// How |z_n| falls over the rotating pairs of a head, taken in their stored order (fast to slow).
enum class SynthSpectrum {
  kFlat,  ///< all pairs alike
  kHigh,  ///< mostly fast pairs
  kLow,   ///< mostly slow pairs
  kMix    ///< from low in the first task to high in the last, more strongly in later heads
};

/// A cache to be made up. Tasks are called task_1, task_2, ... (numbers padded to equal length).
struct SynthOptions {
  std::string name = "synthetic";
  std::string config;       ///< text of a config.json; empty = a llama one from the next five
  std::string config_name;  ///< its file, for messages
  int layers = 4, query_heads = 8, kv_heads = 2, head_dim = 64;
  double rope_theta = 10000.0;

  int tasks = 4;
  std::int64_t examples = 6;                      ///< per task
  std::vector<std::int64_t> windows{1000, 2000};  ///< example e gets windows[e mod size]
  std::int64_t queries = 4, keys = 16;            ///< keys: not used under full coverage
  bool full_coverage = false;
  SynthSpectrum spectrum = SynthSpectrum::kMix;
  std::uint64_t seed = 20260910;

  ElementType type = ElementType::kFloat16;
  spectral::PairLayout layout = spectral::PairLayout::kHalf;
  Rotation query_rotation = Rotation::kPre, key_rotation = Rotation::kPre;
  CacheStorage storage;
};

/// sum_n |z_n| of every pair of vectors, before rounding to the element type.
inline constexpr double kSynthScoreSpan = 8.0;

/// Share of the `high` spectrum in a head of a task under kMix: 1/2 + (i + 1)/heads * (t/(tasks - 1) - 1/2).
/// task, head (layer-major among the stored heads) from 0; 1/2 for a single task.
double synth_high_share(int task, int tasks, int head, int heads);

/// |z_n| / sum |z| for `pairs` rotating pairs. high_share matters for kMix only.
std::vector<double> synth_weights(SynthSpectrum spectrum, double high_share, std::size_t pairs);

/// Writes the cache to `path` (an AtomicFile's partial_path). |z_n| is exactly the spectrum times
/// kSynthScoreSpan for every query and key (up to rounding to the element type); phases are uniform. So norm
/// share, frequency mass and usage norms are known, and under kMix Positional Score rises and Semantic Score
/// falls from task to task: w_S runs from 0 to 1. Lanes that do not rotate are normal with deviation 0.1.
/// Layers that do not rotate are not stored. Each example has its own random stream. `advance` is called once
/// per example. Throws UserError.
void write_synthetic_cache(const std::string& path, const SynthOptions& options,
                           const std::function<void()>& advance);

}  // namespace rope
