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
/// Numbers: C > 0 and finite, 0 < epsilon < 1, X >= 0 and finite, K a whole number >= 0.
SplitRule parse_split(std::string_view text);

/// Mask [h] of the pairs in H(M). omega may hold zeros (never in H). rho: theory §5, 0 <= rho <= 1 (1: equal
/// frequencies, H is empty); read only by the rules made of gamma (operational, intervention, certified,
/// custom). window >= 1.
std::vector<char> high_frequency_mask(const SplitRule& rule, std::span<const double> omega, double rho,
                                      std::int64_t window);

/// gamma = 2 C / ((1 - rho) epsilon); H(M) = {n : M omega_n >= gamma} (theory §5).
double split_gamma(const SplitRule& rule, double rho);

/// Indexes of the nonzero frequencies in falling order, ties by index: what "prefix" means everywhere.
std::vector<int> falling_order(std::span<const double> omega);

/// rho = (omega_min/omega_max)^(1/(k-1)) over the k nonzero frequencies, for grids without a config. 0 when k
/// < 2.
double rho_of_grid(std::span<const double> omega);

/// True where the nonzero frequencies, in falling order, fall by one constant ratio (1e-5 relative) and stay
/// <= 1: the grids that `certified` is proved for. Callers print a warning for `certified` on others.
bool is_geometric(std::span<const double> omega);

}  // namespace rope::spectral
