#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// Parses JSON text that may be hostile: a key that comes twice in an object, an object of more than 4096
/// keys, a number that no float64 holds and nesting beyond 64 levels are refused. Throws UserError, one line
/// that begins with `where`.
nlohmann::ordered_json parse_json_strictly(std::string_view text, const std::string& where,
                                           const std::string& hint);

/// A JSON file read with care: what is not as expected is a UserError "FILE: /json/path: expected ..., found
/// ...". Places are JSON pointers, "" for the root.
class JsonDocument {
 public:
  using Json = nlohmann::ordered_json;

  /// `written_by`: the command whose output this should be, for the hint. The root has to be an object of at
  /// most 256 MiB.
  JsonDocument(const std::string& path, std::string written_by);

  const std::string& path() const { return path_; }
  const Json& root() const { return json_; }
  [[noreturn]] void fail(const std::string& place, const std::string& expected,
                         const std::string& found) const;

  /// root()["format"] is `format` and root()["format_version"] is `version`, or an error.
  void require_format(const std::string& format, std::int64_t version) const;

  const Json& member(const Json& object, const std::string& place, const char* name) const;
  const Json& array(const Json& object, const std::string& place, const char* name) const;
  std::string text(const Json& object, const std::string& place, const char* name) const;
  std::int64_t integer(const Json& object, const std::string& place, const char* name) const;
  /// In [low, high].
  std::int64_t integer(const Json& object, const std::string& place, const char* name, std::int64_t low,
                       std::int64_t high) const;
  /// From 0 to 2^64 - 1.
  std::uint64_t unsigned_integer(const Json& object, const std::string& place, const char* name) const;
  double number(const Json& object, const std::string& place, const char* name) const;         ///< finite
  double number_or_nan(const Json& object, const std::string& place, const char* name) const;  ///< null: NaN
  bool boolean(const Json& object, const std::string& place, const char* name) const;
  std::vector<double> numbers(const Json& object, const std::string& place, const char* name) const;
  /// Each in [low, high].
  std::vector<int> integers(const Json& object, const std::string& place, const char* name, int low,
                            int high) const;

 private:
  void require_object(const Json& json, const std::string& place) const;

  std::string path_, written_by_;
  Json json_;
};

/// The member "format" of a JSON object in a file, e.g. "rope-profiler/ranking"; "" where there is none.
/// Throws UserError when the file is not a JSON object.
std::string json_format(const std::string& path);

}  // namespace rope
