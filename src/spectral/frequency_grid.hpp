#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rope::spectral {

/// Scaling rule of a rotary embedding (the `rope_type` of a Hugging Face config).
enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLongrope, kLlama3, kProportional };

/// Plain parameters of one layer kind's rotary embedding. Only the members that `type` names matter.
struct RopeParameters {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;  ///< base B > 0
  int head_dim = 0;        ///< d, lanes of a query or key vector
  int rotary_dim = 0;      ///< r <= d, before rounding an odd width up; `proportional`: the whole head, d
  double partial_factor = 1.0;   ///< `proportional`: share p of the pairs that turn
  std::optional<double> factor;  ///< f; yarn and longrope: absent = max_position / original_max_position
  std::optional<double> dynamic_alpha;  ///< HunYuan's fixed NTK alpha, in place of `factor`
  std::optional<double> attention_factor;
  std::optional<double> mscale, mscale_all_dim;
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::vector<double> short_factor, long_factor;
  double max_position = 0.0;           ///< Lmax
  double original_max_position = 0.0;  ///< L0
};

/// Angular frequencies of one head, radians per token. The single source that every backend is handed.
struct FrequencyGrid {
  std::vector<double> omega;  ///< [h], 0 <= omega <= pi; 0 = a pair that does not rotate (theory §1: tail)
  double attention_factor = 1.0;  ///< A, multiplies the cos and sin tables of both sides
  double rho = 0.0;               ///< B^(-2/d_exp), from the unscaled base (theory §5)
  int rotary_dim() const { return 2 * static_cast<int>(omega.size()); }
};

/// True where the frequencies follow the length of the run (dynamic, longrope).
bool depends_on_length(const RopeParameters& parameters);

/// Frequencies for a run of `length` tokens (largest position + 1); `length` matters only where
/// depends_on_length says so. Float64 throughout. Throws std::invalid_argument naming the parameter.
FrequencyGrid make_frequency_grid(const RopeParameters& parameters, std::int64_t length);

/// The name used in configs and tables, e.g. "llama3".
std::string rope_type_name(RopeType type);

}  // namespace rope::spectral
