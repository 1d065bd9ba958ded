#include "profiler/token_lines.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiler/error.hpp"

namespace rope {
namespace {

using nlohmann::json;
constexpr std::size_t kLongestLine = std::size_t{1} << 28;      // bytes; 2^24 positions fit
constexpr std::int64_t kMostPositions = std::int64_t{1} << 24;  // the longest window of a cache

UserError line_error(const std::string& where, const std::string& expected, const std::string& found) {
  return UserError(where + ": expected " + expected + ", found " + found,
                   "a line looks like {\"example_id\": \"7\", \"task\": \"niah\", \"query\": [95, 96], "
                   "\"key\": [3, 4, 5]}");
}

std::string shown(const json& value) {
  if (value.is_structured()) return std::string("an ") + value.type_name();  // it may nest without end
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

const json& member(const json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) throw line_error(where, std::string("a member \"") + name + "\"", "none");
  return *found;
}

std::string text_member(const json& object, const char* name, const std::string& where) {
  const json& value = member(object, name, where);
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    throw line_error(where, std::string("\"") + name + "\" to be a text that is not empty", shown(value));
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos)  // it separates the parts of what is hashed
    throw line_error(where, std::string("\"") + name + "\" without a NUL character", shown(value));
  return text;
}

std::vector<std::int64_t> position_member(const json& object, const char* name, const std::string& where) {
  const json& list = member(object, name, where);
  if (!list.is_array()) throw line_error(where, std::string("\"") + name + "\" to be a list", shown(list));
  std::vector<std::int64_t> positions;
  positions.reserve(list.size());
  for (const json& value : list) {
    // Signed only where negative: every integer from 0 up is stored unsigned.
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostPositions))
      throw line_error(where, std::string("integers from 0 to 16777215 in \"") + name + "\"", shown(value));
    positions.push_back(value.get<std::int64_t>());
  }
  std::vector<std::int64_t> sorted = positions;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw line_error(where, std::string("distinct positions in \"") + name + "\"",
                     std::to_string(*twice) + " twice");
  return positions;
}

}  // namespace

bool TokenLineReader::read_line(std::string& text) {
  text.clear();
  std::streambuf& buffer = *from_.rdbuf();
  for (int c = buffer.sbumpc(); c != std::char_traits<char>::eof(); c = buffer.sbumpc()) {
    if (text.empty()) ++line_;
    if (c == '\n') {
      if (text.empty()) continue;
      return true;
    }
    text += static_cast<char>(c);
    if (text.size() > kLongestLine)
      throw line_error(name_ + ":" + std::to_string(line_), "a line of at most 256 MiB", "a longer one");
  }
  return !text.empty();
}

std::optional<TokenCandidates> TokenLineReader::next() {
  std::string text;
  try {
    do {
      if (!read_line(text)) return std::nullopt;
    } while (text.find_first_not_of(" \t\r") == std::string::npos);
  } catch (const std::ios_base::failure&) {
    throw UserError(name_ + ": cannot be read", "is it a file?");
  }
  const std::string where = name_ + ":" + std::to_string(line_);
  json object;
  try {
    object = json::parse(text);
  } catch (const json::parse_error& error) {
    throw line_error(where, "one JSON object", "a mistake at byte " + std::to_string(error.byte));
  } catch (const json::out_of_range&) {
    throw line_error(where, "one JSON object", "a number that no float64 can hold");
  }
  if (!object.is_object()) throw line_error(where, "one JSON object", shown(object));
  TokenCandidates example;
  example.example_id = text_member(object, "example_id", where);
  example.task = text_member(object, "task", where);
  if (example.task.find('/') != std::string::npos)
    throw line_error(where, "a task name without '/' (it names a group of the cache)", shown(object["task"]));
  const auto [had, fresh] = seen_.emplace(example.task + "/" + example.example_id, line_);
  if (!fresh)
    throw line_error(where, "an example that has not come before",
                     shown(object["example_id"]) + " of line " + std::to_string(had->second));
  example.query = position_member(object, "query", where);
  example.key = position_member(object, "key", where);
  return example;
}

std::string token_choice_line(const TokenCandidates& example, const TokenChoice& choice) {
  nlohmann::ordered_json line;
  line["example_id"] = example.example_id;
  line["task"] = example.task;
  line["query_position"] = choice.query;
  line["key_position"] = choice.key;
  return line.dump();
}

}  // namespace rope
