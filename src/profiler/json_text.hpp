#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rope {

/// JSON for people and programs: two spaces of indent, one member a line, but lists of plain values (and
/// lists of such short lists) on one line. Numbers read back the same float64; bytes that are no UTF-8 are
/// replaced. Ends with a line feed.
std::string json_text(const nlohmann::ordered_json& json);

/// A number, or null where it is not finite.
nlohmann::ordered_json json_number(double value);

}  // namespace rope
