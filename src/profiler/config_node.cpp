#include "profiler/config_node.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::size_t kLongestText = std::size_t{16} << 20;
constexpr int kDeepest = 64;

std::string one_line(std::string text, std::size_t longest) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) c = ' ';
  if (text.size() > longest) {
    // Cut before a byte that continues a UTF-8 character.
    std::size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

/// Puts quotes around bare NaN and Infinity; checks the depth on the way.
std::string quote_non_finite(std::string_view text, const std::string& where) {
  std::string result;
  result.reserve(text.size() + 64);
  bool in_string = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      result += c;
      if (c == '\\' && i + 1 < text.size()) result += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kDeepest)
      throw UserError(where + ": expected JSON at most " + std::to_string(kDeepest) +
                      " levels deep, found deeper nesting");
    bool replaced = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.substr(i, word.size()) != word) continue;
      result.append("\"").append(word).append("\"");
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (!replaced) result += c;
  }
  return result;
}

std::string type_name(const nlohmann::json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  return short_text(value);
}

}  // namespace

std::string short_text(const nlohmann::json& value) {
  return one_line(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
}

nlohmann::json parse_config_text(std::string_view text, const std::string& where) {
  if (text.size() > kLongestText)
    throw UserError(where + ": expected a config.json of at most 16 MiB, found " +
                    std::to_string(text.size()) + " bytes");
  const std::string clean = quote_non_finite(text, where);
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(clean);
  } catch (const nlohmann::json::exception& e) {
    throw UserError(where + ": not JSON: " + one_line(e.what(), 200),
                    "store the text of the model's config.json as it is");
  }
  if (!parsed.is_object())
    throw UserError(where + ": expected a JSON object, found " + type_name(parsed),
                    "store the text of the model's config.json as it is");
  return parsed;
}

void WarningList::add(const std::string& sentence) {
  if (sentences_.size() >= 64) return;
  if (std::find(sentences_.begin(), sentences_.end(), sentence) == sentences_.end())
    sentences_.push_back(sentence);
}

ConfigNode::ConfigNode(nlohmann::json object, std::string where, std::string path, WarningList& warnings)
    : own_(std::make_shared<const nlohmann::json>(std::move(object))),
      defaults_(std::make_shared<const nlohmann::json>(nlohmann::json::object())),
      where_(std::move(where)),
      path_(std::move(path)),
      warnings_(&warnings) {}

ConfigNode ConfigNode::with_defaults(nlohmann::json defaults, std::string owner) const {
  ConfigNode node = *this;
  node.defaults_ = std::make_shared<const nlohmann::json>(std::move(defaults));
  node.owner_ = std::move(owner);
  return node;
}

ConfigNode ConfigNode::with_own(nlohmann::json object) const {
  ConfigNode node = *this;
  node.own_ = std::make_shared<const nlohmann::json>(std::move(object));
  return node;
}

std::string ConfigNode::full_key(const std::string& key) const {
  return one_line(path_.empty() ? key : path_ + "." + key, 200);
}

void ConfigNode::fail(const std::string& key, const std::string& expected, const std::string& found,
                      const std::string& hint) const {
  throw UserError(where_ + ": " + full_key(key) + ": expected " + expected + ", found " + found, hint);
}

void ConfigNode::refuse(const std::string& key, const std::string& sentence, const std::string& hint) const {
  throw UserError(where_ + ": " + full_key(key) + ": " + sentence, hint);
}

std::string ConfigNode::which(std::initializer_list<const char*> keys) const {
  for (const auto* source : {own_.get(), defaults_.get()})
    for (const char* key : keys) {
      const auto it = source->find(key);
      if (it != source->end() && !it->is_null() && (source == own_.get() || !mentions(key))) return key;
    }
  return {};
}

const nlohmann::json* ConfigNode::find(const std::string& key) const {
  auto it = own_->find(key);
  if (it != own_->end()) return it->is_null() ? nullptr : &*it;
  it = defaults_->find(key);
  if (it == defaults_->end() || it->is_null()) return nullptr;
  warn(full_key(key) + " is absent from the config: " + short_text(*it) + " is assumed, the default of " +
       owner_);
  return &*it;
}

std::optional<double> ConfigNode::number(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(key, "a number", type_name(*value));
  const double number = value->get<double>();
  if (!std::isfinite(number)) fail(key, "a finite number", short_text(*value));
  return number;
}

std::optional<double> ConfigNode::positive(const std::string& key) const {
  const auto value = number(key);
  if (value && !(*value > 0.0)) fail(key, "a number above 0", short_text(*find(key)));
  return value;
}

std::optional<std::int64_t> ConfigNode::integer(const std::string& key, std::int64_t low,
                                                std::int64_t high) const {
  const auto value = number(key);
  if (!value) return std::nullopt;
  if (*value != std::floor(*value) || *value < static_cast<double>(low) || *value > static_cast<double>(high))
    fail(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high),
         short_text(*find(key)));
  return static_cast<std::int64_t>(*value);
}

std::optional<bool> ConfigNode::boolean(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(key, "true or false", type_name(*value));
  return value->get<bool>();
}

std::optional<std::string> ConfigNode::text(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(key, "text", type_name(*value));
  return one_line(value->get<std::string>(), 200);
}

std::optional<std::vector<double>> ConfigNode::numbers(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array()) fail(key, "a list of numbers", type_name(*value));
  std::vector<double> result;
  result.reserve(value->size());
  for (const auto& entry : *value) {
    // Python writes flags of layers as 0/1 or as false/true.
    if (entry.is_boolean()) {
      result.push_back(entry.get<bool>() ? 1.0 : 0.0);
      continue;
    }
    if (!entry.is_number() || !std::isfinite(entry.get<double>()))
      fail(key + "[" + std::to_string(result.size()) + "]", "a finite number", type_name(entry));
    result.push_back(entry.get<double>());
  }
  return result;
}

std::optional<std::vector<std::string>> ConfigNode::texts(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array()) fail(key, "a list of texts", type_name(*value));
  std::vector<std::string> result;
  result.reserve(value->size());
  for (const auto& entry : *value) {
    if (!entry.is_string()) fail(key + "[" + std::to_string(result.size()) + "]", "text", type_name(entry));
    result.push_back(one_line(entry.get<std::string>(), 60));
  }
  return result;
}

std::optional<ConfigNode> ConfigNode::object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail(key, "an object", type_name(*value));
  return child(key, *value);
}

ConfigNode ConfigNode::child(const std::string& key, nlohmann::json object) const {
  return ConfigNode(std::move(object), where_, full_key(key), *warnings_);
}

}  // namespace rope
