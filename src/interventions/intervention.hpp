#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// What is done to the high-frequency pairs of the chosen heads (theory §7; P 181, G.2.2-3).
enum class Operation {
  kRescale,  ///< z_n -> alpha z_n
  kFreeze,   ///< omega_n -> 0: the pair joins the constant part of the score
};
const char* operation_name(Operation operation);  ///< "rescale", "freeze"

/// One candidate.
struct Intervention {
  Operation operation = Operation::kRescale;
  double alpha = 1.0;  ///< of a rescaling, finite, >= 0; 1 for a freeze, where it means nothing
  /// "NR" (no rotation), or the shortest decimal of alpha: "0", "0.5", "2".
  std::string id() const;
  bool operator==(const Intervention&) const = default;
};

inline constexpr const char* kFreezeId = "NR";
inline constexpr double kLargestStrength = 1e4;

/// "NR" or a decimal from 0 to kLargestStrength. Throws UserError (usage); `option` is named in it.
Intervention parse_intervention(std::string_view text, const std::string& option);

inline constexpr std::size_t kMostStrengths = 200;  ///< fewer than `outcome` takes candidates

/// A comma-separated list of at most kMostStrengths candidates, each once. alpha = 1 is the baseline and no
/// candidate. Throws UserError (usage).
std::vector<Intervention> parse_strengths(std::string_view text);

}  // namespace rope
