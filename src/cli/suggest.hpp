#pragma once

#include <string>
#include <vector>

namespace rope::cli {

/// The members of `known` that `word` was probably meant to be, best first, at most three: few edits away
/// (an exchange of neighbours is one), or beginning with the word.
std::vector<std::string> nearest(const std::string& word, const std::vector<std::string>& known);

/// "did you mean --threads?", "did you mean a or b?"; `otherwise` when nothing is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise);

}  // namespace rope::cli
