#pragma once

#include <cstddef>
#include <string>

namespace rope {

/// Edit distance in which exchanging two neighbours costs one (optimal string alignment). Takes a.size() *
/// b.size() steps and memory: for words.
std::size_t edit_distance(const std::string& a, const std::string& b);

}  // namespace rope
