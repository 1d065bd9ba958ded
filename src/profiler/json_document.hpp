#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rope {

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

  const Json& member(const Json& object, const std::string& place, const char* name) const;
  const Json& array(const Json& object, const std::string& place, const char* name) const;
  std::string text(const Json& object, const std::string& place, const char* name) const;
  std::int64_t integer(const Json& object, const std::string& place, const char* name) const;
  /// In [low, high].
  std::int64_t integer(const Json& object, const std::string& place, const char* name, std::int64_t low,
                       std::int64_t high) const;
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

}  // namespace rope
