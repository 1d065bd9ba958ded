#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rope::spectral {

/// Rule that divides the pairs of a grid into high-frequency H(M) and the rest (theory §5; P 8, 167).
struct SplitRule {
  enum class Kind {
    kOperational,
    kIntervention,
    kCertified,
    kSeparation,
    kCustom,
    kOmega,
    kPeriods,
    kPrefix
  };
  Kind kind = Kind::kOperational;
  double c = 0.06;           ///< C
  double epsilon = 0.1;      ///< epsilon
  double threshold = 0.0;    ///< X of omega:X and periods:X
  int prefix = 0;            ///< K of prefix:K
  std::string name() const;  ///< the spelling of `--split`, e.g. "custom:0.05,0.2"
};

/// Parses a `--split` value. Throws std::invalid_argument with a sentence that lists the valid forms.
SplitRule parse_split(std::string_view text);

/// Mask [h] of the pairs in H(M). omega may hold zeros (never in H). rho: theory §5, 0 < rho < 1.
std::vector<char> high_frequency_mask(const SplitRule& rule, std::span<const double> omega, double rho,
                                      std::int64_t window);

/// rho = (omega_min/omega_max)^(1/(k-1)) over the k nonzero frequencies, for grids without a config. 0 when k
/// < 2.
double rho_of_grid(std::span<const double> omega);

}  // namespace rope::spectral
