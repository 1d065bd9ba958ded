#include "interventions/flat_object.hpp"

#include <nlohmann/json.hpp>

#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

using Kind = FlatObject::Kind;
constexpr std::size_t kMostTexts = 256;

/// Follows the parser; depth 1 is the object itself.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(std::vector<FlatObject::Member>& members, const std::string& where)
      : members_(members), where_(where) {}

  bool null() override { return value(Kind::kNull, 0); }
  bool boolean(bool v) override { return value(Kind::kBoolean, v ? 1 : 0); }
  bool number_integer(number_integer_t v) override {
    if (FlatObject::Member* member = current()) member->text = std::to_string(v);
    return value(Kind::kInteger, static_cast<double>(v));
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (FlatObject::Member* member = current()) member->text = std::to_string(v);
    return value(Kind::kInteger, static_cast<double>(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return value(Kind::kReal, v); }
  bool string(string_t& v) override {
    if (FlatObject::Member* member = current())
      member->text = std::move(v);
    else if (depth_ == 2 && in_list_ && member_ && member_->texts.size() < kMostTexts)
      member_->texts.push_back(std::move(v));
    return value(Kind::kText, 0);
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Kind::kOther); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (depth_ == 0) refuse("an array", "one object on every line");
    return open(Kind::kList);
  }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    member_ = nullptr;
    for (auto& member : members_)
      if (member.name == name) member_ = &member;
    if (member_ && member_->kind != Kind::kAbsent) refuse("the member " + rope::quoted(name) + " twice");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error))
      refuse("a number that no float64 can hold");
    refuse("a mistake at byte " + std::to_string(position));
  }

 private:
  [[noreturn]] void refuse(const std::string& found, const std::string& hint = {}) const {
    throw UserError(where_ + ": expected one JSON object, found " + found, hint);
  }
  FlatObject::Member* current() const { return depth_ == 1 ? member_ : nullptr; }
  bool value(Kind kind, double number) {
    if (depth_ == 0) refuse("another value");
    if (FlatObject::Member* member = current()) {
      member->kind = kind;
      member->number = number;
      member_ = nullptr;
    }
    return true;
  }
  bool open(Kind kind) {
    if (FlatObject::Member* member = current()) {
      member->kind = kind;
      in_list_ = kind == Kind::kList;
    }
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 1) member_ = nullptr;
    return true;
  }

  std::vector<FlatObject::Member>& members_;
  const std::string& where_;
  FlatObject::Member* member_ = nullptr;  // of the key read last at depth 1
  int depth_ = 0;
  bool in_list_ = false;
};

}  // namespace

FlatObject::FlatObject(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    members_.emplace_back();
    members_.back().name = name;
  }
}

void FlatObject::parse(std::string_view text, const std::string& where) {
  for (Member& member : members_) {
    member.kind = Kind::kAbsent;
    member.text.clear();
    member.texts.clear();
  }
  Handler handler(members_, where);
  nlohmann::json::sax_parse(text, &handler);
}

}  // namespace rope
