#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// Parses the text of a config.json that may be hostile: at most 16 MiB, 64 levels deep. Python's NaN and
/// Infinity, which json.dump writes, become text, so that a number read from them is refused by its key.
/// Throws UserError, one line that begins with `where`.
nlohmann::json parse_config_text(std::string_view text, const std::string& where);

/// Sentences for the user, each once, in the order of their first use; at most 64.
class WarningList {
 public:
  void add(const std::string& sentence);
  const std::vector<std::string>& all() const { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

/// One JSON object of a config with checked access by key. A null value counts as absent. A key that the
/// config does not mention is looked up in the defaults of its model type, and the value is then reported as
/// assumed. Every error names the full key, e.g. "text_config.rope_scaling.factor".
class ConfigNode {
 public:
  ConfigNode(nlohmann::json object, std::string where, std::string path, WarningList& warnings);

  /// Same object, with `defaults` (of model type `owner`) behind it.
  ConfigNode with_defaults(nlohmann::json defaults, std::string owner) const;

  /// Same place, other content.
  ConfigNode with_own(nlohmann::json object) const;

  /// Own keys only.
  bool mentions(const std::string& key) const { return own_->contains(key); }
  /// First of `keys` that has a value, "" when none. Own values first, then defaults.
  std::string which(std::initializer_list<const char*> keys) const;
  /// The value, or null when absent. Reports a default that is taken.
  const nlohmann::json* find(const std::string& key) const;

  std::optional<double> number(const std::string& key) const;
  /// Finite and above 0.
  std::optional<double> positive(const std::string& key) const;
  /// Whole number in [low, high]; 8192.0 counts as whole.
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<std::vector<double>> numbers(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  std::optional<ConfigNode> object(const std::string& key) const;
  /// A node for `object`, which stands (or would stand) at `key`.
  ConfigNode child(const std::string& key, nlohmann::json object) const;

  const nlohmann::json& own() const { return *own_; }
  const nlohmann::json& defaults() const { return *defaults_; }
  const std::string& owner() const { return owner_; }
  std::string full_key(const std::string& key) const;
  void warn(const std::string& sentence) const { warnings_->add(sentence); }
  /// "WHERE: KEY: expected X, found Y"
  [[noreturn]] void fail(const std::string& key, const std::string& expected, const std::string& found,
                         const std::string& hint = {}) const;
  /// "WHERE: KEY: SENTENCE"
  [[noreturn]] void refuse(const std::string& key, const std::string& sentence,
                           const std::string& hint = {}) const;

 private:
  std::shared_ptr<const nlohmann::json> own_, defaults_;
  std::string where_, path_, owner_;
  WarningList* warnings_;
};

/// A JSON value as a short piece of one line.
std::string short_text(const nlohmann::json& value);

}  // namespace rope
