#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rope {

/// What a `model_type` of Hugging Face transformers does that its config.json does not say
/// (../shared/reference/model_families.md; the rest observed on the classes of transformers 5.24).
struct ModelFamily {
  const char* model_type = "";

  /// Kinds of the layers where the config has no `layer_types`: an optional beginning up to '|', then a
  /// part that repeats. s sliding, f full, c chunked, i indexed, h hybrid, r reference sliding, C and H
  /// (heavily) compressed, l linear attention, v convolution, m no attention. "" = all full or, where the
  /// config has a window, all sliding.
  const char* pattern = "";
  bool last_layer_full = false;
  bool pattern_from_end = false;  ///< the pattern counts back from the last layer

  enum class Rotates { kAll, kNone, kSlidingOnly, kSlidingOnlyIfWindow };
  Rotates rotates = Rotates::kAll;

  enum class Scale { kHeadDim, kOne, kHalfHeadDim };
  Scale scale = Scale::kHeadDim;  ///< softmax scale where no key of the config gives one

  enum class NormAfter { kNone, kLearned, kWeightless };
  NormAfter norm_after = NormAfter::kNone;  ///< norm of q and k between the rotation and the product

  bool bidirectional = false;    ///< attends to both sides: no S(m) with m >= 0 alone
  bool reversed = false;         ///< angles negated
  bool uses_rotary_dim = false;  ///< reads `rotary_dim`, the rotary width in lanes
  const char* caution = "";      ///< a sentence for the user, "" = none
};

/// The family of a model type; nullptr when neither this table nor that of the defaults knows it.
const ModelFamily* find_family(std::string_view model_type);

/// Values that the config class of `model_type` takes for keys missing in config.json; {} for unknown types.
nlohmann::json default_values(std::string_view model_type);

}  // namespace rope
