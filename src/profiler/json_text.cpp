#include "profiler/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

std::string compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool plain(const Json& json) { return !json.is_structured(); }

bool one_line(const Json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& item) {
           return plain(item) ||
                  (item.is_array() && item.size() <= 4 && std::all_of(item.begin(), item.end(), plain));
         });
}

void write(const Json& json, std::size_t indent, std::string& text) {
  if (plain(json) || json.empty()) {
    text += compact(json);
    return;
  }
  if (one_line(json)) {
    text += '[';
    for (std::size_t i = 0; i < json.size(); ++i) text += (i ? ", " : "") + compact(json[i]);
    text += ']';
    return;
  }
  text += json.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    text += (first ? "\n" : ",\n") + std::string(indent + 2, ' ');
    if (json.is_object()) text += compact(key) + ": ";
    write(value, indent + 2, text);
    first = false;
  }
  text += "\n" + std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& json) {
  std::string text;
  write(json, 0, text);
  return text + "\n";
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace rope
