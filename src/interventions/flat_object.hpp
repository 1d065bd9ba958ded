#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// The members of one JSON object that are asked for; the others are passed over, however deep or long. What
/// a line of a JSON lines file needs: no tree is built.
class FlatObject {
 public:
  enum class Kind { kAbsent, kNull, kBoolean, kInteger, kReal, kText, kList, kOther };
  struct Member {
    std::string name;
    Kind kind = Kind::kAbsent;
    std::string text;                ///< of a text; digits of an integer
    double number = 0;               ///< of a number, finite; 0 and 1 of a boolean
    std::vector<std::string> texts;  ///< of a list: its texts, at most 256
  };
  explicit FlatObject(const std::vector<std::string>& names);

  /// Takes the members from `text`. Throws UserError "WHERE: expected ..., found ..." for text that is no
  /// JSON object, a number beyond float64, and a member asked for that comes twice.
  void parse(std::string_view text, const std::string& where);
  const Member& operator[](std::size_t index) const { return members_[index]; }
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
};

}  // namespace rope
