#include "profiler/json_document.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"
#include "profiler/regular_file.hpp"

namespace rope {
namespace {

using Json = JsonDocument::Json;
constexpr std::streamoff kMaxBytes = std::streamoff{1} << 28;
constexpr int kDeepest = 64;
constexpr std::size_t kMostKeys = 4096;

std::string short_dump(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::string read_text(const std::string& path) {
  require_regular_file(path);
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw UserError(path + ": cannot open", "check the file's name");
  const std::streamoff size = in.tellg();
  if (size > kMaxBytes) throw input_error(path, "", "a JSON text of at most 256 MiB", "a larger one");
  std::string text(static_cast<std::size_t>(std::max<std::streamoff>(size, 0)), '\0');
  in.seekg(0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (size < 0 || in.gcount() != size) throw UserError(path + ": cannot be read", "is it a file?");
  return text;
}

std::string hint_of(const std::string& written_by) {
  return "was this file written by `rope-profiler " + written_by + "`?";
}

}  // namespace

Json parse_json_strictly(std::string_view text, const std::string& where, const std::string& hint) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    return UserError(where + ": expected " + expected + ", found " + found, hint);
  };
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) throw refuse("JSON at most 64 levels deep", "more");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key) return true;
    const auto& key = value.get_ref<const std::string&>();
    if (!keys.back().insert(key).second)
      throw refuse("every key of an object once", rope::quoted(key) + " twice");
    if (keys.back().size() > kMostKeys) throw refuse("objects of at most 4096 keys", "more");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw refuse("JSON", "a mistake at byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {
    throw refuse("JSON", "a number that no float64 can hold");
  }
}

JsonDocument::JsonDocument(const std::string& path, std::string written_by)
    : path_(path), written_by_(std::move(written_by)) {
  json_ = parse_json_strictly(read_text(path), path, hint_of(written_by_));
  if (!json_.is_object()) fail("", "a JSON object", json_.type_name());
}

void JsonDocument::fail(const std::string& place, const std::string& expected,
                        const std::string& found) const {
  throw input_error(path_, place, expected, found, hint_of(written_by_));
}

void JsonDocument::require_format(const std::string& format, std::int64_t version) const {
  if (text(json_, "", "format") != format) fail("/format", format, rope::quoted(text(json_, "", "format")));
  if (integer(json_, "", "format_version") != version)
    fail("/format_version", std::to_string(version), short_dump(json_["format_version"]));
}

void JsonDocument::require_object(const Json& json, const std::string& place) const {
  if (!json.is_object()) fail(place, "an object", json.type_name());
}

const Json& JsonDocument::member(const Json& object, const std::string& place, const char* name) const {
  require_object(object, place);
  const auto found = object.find(name);
  if (found == object.end()) fail(place + "/" + name, "a value", "none");
  return *found;
}

const Json& JsonDocument::array(const Json& object, const std::string& place, const char* name) const {
  const Json& value = member(object, place, name);
  if (!value.is_array()) fail(place + "/" + name, "an array", value.type_name());
  return value;
}

std::string JsonDocument::text(const Json& object, const std::string& place, const char* name) const {
  const Json& value = member(object, place, name);
  if (!value.is_string()) fail(place + "/" + name, "text", value.type_name());
  return value.get<std::string>();
}

std::int64_t JsonDocument::integer(const Json& object, const std::string& place, const char* name) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return integer(object, place, name, -kMost, kMost);
}

std::int64_t JsonDocument::integer(const Json& object, const std::string& place, const char* name,
                                   std::int64_t low, std::int64_t high) const {
  const Json& value = member(object, place, name);
  if (!value.is_number_integer()) fail(place + "/" + name, "a whole number", value.type_name());
  const bool fits =
      !value.is_number_unsigned() ||
      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    fail(place + "/" + name, std::to_string(low) + " to " + std::to_string(high), short_dump(value));
  return value.get<std::int64_t>();
}

std::uint64_t JsonDocument::unsigned_integer(const Json& object, const std::string& place,
                                             const char* name) const {
  const Json& value = member(object, place, name);
  if (!value.is_number_unsigned())
    fail(place + "/" + name, "a whole number from 0",
         value.is_number() ? short_dump(value) : value.type_name());
  return value.get<std::uint64_t>();
}

double JsonDocument::number(const Json& object, const std::string& place, const char* name) const {
  const Json& value = member(object, place, name);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    fail(place + "/" + name, "a number", value.is_number() ? short_dump(value) : value.type_name());
  return value.get<double>();
}

double JsonDocument::number_or_nan(const Json& object, const std::string& place, const char* name) const {
  return member(object, place, name).is_null() ? std::numeric_limits<double>::quiet_NaN()
                                               : number(object, place, name);
}

bool JsonDocument::boolean(const Json& object, const std::string& place, const char* name) const {
  const Json& value = member(object, place, name);
  if (!value.is_boolean()) fail(place + "/" + name, "true or false", value.type_name());
  return value.get<bool>();
}

std::vector<double> JsonDocument::numbers(const Json& object, const std::string& place,
                                          const char* name) const {
  std::vector<double> result;
  for (const Json& value : array(object, place, name)) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail(place + "/" + name, "numbers", value.is_number() ? short_dump(value) : value.type_name());
    result.push_back(value.get<double>());
  }
  return result;
}

std::vector<int> JsonDocument::integers(const Json& object, const std::string& place, const char* name,
                                        int low, int high) const {
  std::vector<int> result;
  for (const Json& value : array(object, place, name)) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= 0x7fffffffU) &&
                      value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
    if (!fits)
      fail(place + "/" + name, "whole numbers from " + std::to_string(low) + " to " + std::to_string(high),
           short_dump(value));
    result.push_back(static_cast<int>(value.get<std::int64_t>()));
  }
  return result;
}

std::string json_format(const std::string& path) {
  const JsonDocument document(path, "rank, plan or outcome");
  const auto found = document.root().find("format");
  return found != document.root().end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace rope
