#include "spectral/frequency_grid.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace rope::spectral {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

void require_positive(double value, const char* name) {
  if (!(value > 0.0) || !std::isfinite(value)) refuse(std::string(name) + " must be a finite number above 0");
}

/// f, or Lmax / L0 where it is not given (yarn, longrope).
double factor_or_ratio(const RopeParameters& p) {
  if (p.factor) return *p.factor;
  require_positive(p.max_position, "max_position_embeddings");
  return p.max_position / p.original_max_position;
}

std::size_t pair_count(const RopeParameters& p) { return (static_cast<std::size_t>(p.rotary_dim) + 1) / 2; }

/// base^(-2i/width) for i < count.
std::vector<double> geometric(double base, double width, std::size_t count) {
  std::vector<double> omega(count);
  for (std::size_t i = 0; i < count; ++i) omega[i] = std::pow(base, -2.0 * static_cast<double>(i) / width);
  return omega;
}

/// Base of `dynamic` for a run of `length` tokens (NTK), or HunYuan's fixed one.
double dynamic_base(const RopeParameters& p, std::int64_t length) {
  if (p.rotary_dim <= 2) refuse("rope_type dynamic needs a rotary width above 2");
  const double r = p.rotary_dim;
  double stretch;
  if (p.dynamic_alpha) {
    require_positive(*p.dynamic_alpha, "alpha");
    stretch = *p.dynamic_alpha;
  } else {
    if (!p.factor) refuse("factor is missing (rope_type dynamic)");
    require_positive(p.max_position, "max_position_embeddings");
    const double run = std::max(static_cast<double>(length), p.max_position);
    stretch = *p.factor * run / p.max_position - (*p.factor - 1.0);
  }
  return p.theta * std::pow(stretch, r / (r - 2.0));
}

double yarn_gain(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeParameters& p, double factor) {
  if (p.attention_factor) return *p.attention_factor;
  if (p.mscale.value_or(0.0) != 0.0 && p.mscale_all_dim.value_or(0.0) != 0.0)
    return yarn_gain(factor, *p.mscale) / yarn_gain(factor, *p.mscale_all_dim);
  return yarn_gain(factor, 1.0);
}

/// Blends the plain and the stretched grid over a ramp of pair indexes.
void apply_yarn(const RopeParameters& p, FrequencyGrid& grid) {
  require_positive(p.original_max_position, "original_max_position_embeddings");
  require_positive(p.beta_fast, "beta_fast");
  require_positive(p.beta_slow, "beta_slow");
  const double factor = factor_or_ratio(p);
  const double r = p.rotary_dim;
  // Index of the pair that turns `turns` times over the original context.
  const auto index_of = [&](double turns) {
    return r * std::log(p.original_max_position / (2.0 * std::numbers::pi * turns)) /
           (2.0 * std::log(p.theta));
  };
  double low = index_of(p.beta_fast), high = index_of(p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, r - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < grid.omega.size(); ++i) {
    const double t = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    grid.omega[i] = (1.0 - t) * grid.omega[i] + t * grid.omega[i] / factor;
  }
  grid.attention_factor = yarn_attention_factor(p, factor);
}

void apply_longrope(const RopeParameters& p, std::int64_t length, FrequencyGrid& grid) {
  require_positive(p.original_max_position, "original_max_position_embeddings");
  const bool is_long = static_cast<double>(length) > p.original_max_position;
  for (const auto* list : {&p.short_factor, &p.long_factor}) {
    const char* name = list == &p.short_factor ? "short_factor" : "long_factor";
    if (list->size() != grid.omega.size())
      refuse(std::string(name) + " must have " + std::to_string(grid.omega.size()) +
             " entries, one a pair, has " + std::to_string(list->size()));
    for (const double divisor : *list) require_positive(divisor, name);
  }
  const std::vector<double>& divisor = is_long ? p.long_factor : p.short_factor;
  for (std::size_t i = 0; i < grid.omega.size(); ++i) grid.omega[i] /= divisor[i];
  if (p.attention_factor) {
    grid.attention_factor = *p.attention_factor;
    return;
  }
  const double factor = factor_or_ratio(p);
  if (factor <= 1.0) return;
  if (!(p.original_max_position > 1.0)) refuse("original_max_position_embeddings must be above 1 (longrope)");
  grid.attention_factor = std::sqrt(1.0 + std::log(factor) / std::log(p.original_max_position));
}

void apply_llama3(const RopeParameters& p, FrequencyGrid& grid) {
  require_positive(p.original_max_position, "original_max_position_embeddings");
  require_positive(p.low_freq_factor, "low_freq_factor");
  require_positive(p.high_freq_factor, "high_freq_factor");
  if (!p.factor) refuse("factor is missing (rope_type llama3)");
  if (!(p.high_freq_factor > p.low_freq_factor)) refuse("high_freq_factor must be above low_freq_factor");
  const double longest = p.original_max_position / p.low_freq_factor;
  const double shortest = p.original_max_position / p.high_freq_factor;
  for (double& omega : grid.omega) {
    const double wavelength = 2.0 * std::numbers::pi / omega;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      omega /= *p.factor;
      continue;
    }
    const double s =
        (p.original_max_position / wavelength - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
    omega = (1.0 - s) * omega / *p.factor + s * omega;
  }
}

FrequencyGrid make_proportional(const RopeParameters& p) {
  if (p.head_dim % 2 != 0) refuse("head_dim must be even (rope_type proportional)");
  if (!(p.partial_factor > 0.0 && p.partial_factor <= 1.0))
    refuse("partial_rotary_factor must be above 0 and at most 1");
  const double factor = p.factor.value_or(1.0);
  const auto turning = static_cast<std::size_t>(std::floor(p.partial_factor * p.head_dim / 2.0));
  FrequencyGrid grid;
  grid.omega = geometric(p.theta, p.head_dim, static_cast<std::size_t>(p.head_dim) / 2);
  for (std::size_t i = 0; i < grid.omega.size(); ++i)
    grid.omega[i] = i < turning ? grid.omega[i] / factor : 0.0;
  grid.rho = std::pow(p.theta, -2.0 / p.head_dim);
  return grid;
}

FrequencyGrid make_unchecked(const RopeParameters& p, std::int64_t length) {
  if (p.type == RopeType::kProportional) return make_proportional(p);
  if (p.rotary_dim < 1 || 2 * pair_count(p) > static_cast<std::size_t>(p.head_dim))
    refuse("a rotary width of " + std::to_string(p.rotary_dim) + " does not fit a head of " +
           std::to_string(p.head_dim) + " lanes in pairs");
  const double base = p.type == RopeType::kDynamic ? dynamic_base(p, length) : p.theta;
  FrequencyGrid grid;
  grid.omega = geometric(base, p.rotary_dim, pair_count(p));
  grid.rho = std::pow(p.theta, -2.0 / p.rotary_dim);
  switch (p.type) {
    case RopeType::kLinear:
      if (!p.factor) refuse("factor is missing (rope_type linear)");
      for (double& omega : grid.omega) omega /= *p.factor;
      break;
    case RopeType::kYarn:
      apply_yarn(p, grid);
      break;
    case RopeType::kLongrope:
      apply_longrope(p, length, grid);
      break;
    case RopeType::kLlama3:
      apply_llama3(p, grid);
      break;
    default:
      break;
  }
  return grid;
}

}  // namespace

bool depends_on_length(const RopeParameters& p) {
  if (p.type == RopeType::kDynamic) return !p.dynamic_alpha && p.factor.value_or(0.0) != 0.0;
  return p.type == RopeType::kLongrope && p.short_factor != p.long_factor;
}

FrequencyGrid make_frequency_grid(const RopeParameters& p, std::int64_t length) {
  if (!(p.theta > 1.0) || !std::isfinite(p.theta)) refuse("rope_theta must be a finite number above 1");
  if (p.head_dim < 1) refuse("head_dim must be above 0");
  if (p.factor) require_positive(*p.factor, "factor");
  if (p.attention_factor) require_positive(*p.attention_factor, "attention_factor");
  FrequencyGrid grid = make_unchecked(p, length);
  for (const double omega : grid.omega)
    if (!(omega >= 0.0 && omega <= std::numbers::pi))
      refuse("a pair would turn by " + std::to_string(omega) + " radians per token, outside 0 to pi");
  if (!(grid.attention_factor > 0.0) || !std::isfinite(grid.attention_factor))
    refuse("the attention factor that follows from mscale and factor is not a finite number above 0");
  return grid;
}

std::string rope_type_name(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kDynamic:
      return "dynamic";
    case RopeType::kYarn:
      return "yarn";
    case RopeType::kLongrope:
      return "longrope";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kProportional:
      return "proportional";
  }
  return "unknown";
}

}  // namespace rope::spectral
