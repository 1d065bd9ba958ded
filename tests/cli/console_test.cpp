#include "cli/console.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <sstream>

#include "cli/text.hpp"

TEST_SUITE_BEGIN("cli");

namespace rope::cli {
namespace {

struct TestConsole {
  std::ostringstream out, err;
  Console console;
  explicit TestConsole(bool terminal = false, bool quiet = false, bool verbose = false)
      : console(Streams{&out, &err, terminal, terminal, 80}, quiet, verbose) {}
};

/// Sets an environment variable for a scope; nullptr unsets it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
      had_ = true;
    }
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~ScopedVariable() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace

TEST_CASE("exact_number reads back the same float64") {
  for (const double value : {0.1, 1.0 / 3.0, 1e-310, 123456789.0, -0.0, 5e-324, 1.7976931348623157e308})
    CHECK(std::strtod(exact_number(value).c_str(), nullptr) == value);
  CHECK(exact_number(0.1) == "0.1");
  CHECK(exact_number(2.0) == "2");
  CHECK(exact_number(std::numeric_limits<double>::quiet_NaN()).empty());
  CHECK(exact_number(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("short_number keeps significant digits and marks NaN") {
  CHECK(short_number(0.65798299) == "0.65798");
  CHECK(short_number(0.66) == "0.66000");
  CHECK(short_number(12345.4) == "12345");
  CHECK(short_number(1234567.0, 3) == "1.23e+06");
  CHECK(short_number(-0.0, 3) == "0.00");
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN()) == "-");
}

TEST_CASE("printable escapes what would act on a terminal") {
  CHECK(printable("niah_single") == "niah_single");
  CHECK(printable("a\x1b[31mb\nc\t\x7f") == "a\\x1b[31mb\\nc\\t\\x7f");
  CHECK(printable("größe 世界") == "größe 世界");
  CHECK(printable("\xff\xc0\xaf") == "\\xff\\xc0\\xaf");  // never valid, and an overlong slash
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("\xe2\x80\xae"
                  "abc") == "\\xe2\\x80\\xaeabc");  // right-to-left override
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // C1 control sequence introducer
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xe4\xb8") == "\\xe4\\xb8");  // cut short
}

TEST_CASE("display width counts columns, not bytes") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("größe") == 5);
  CHECK(display_width("世界") == 4);
  CHECK(display_width("e\xcc\x81") == 1);  // e and a combining acute
}

TEST_CASE("text is wrapped at spaces; indented and blank lines stay") {
  CHECK(wrap_text("one two three", 8) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap_text("a-very-long-word x", 5) == std::vector<std::string>{"a-very-long-word", "x"});
  CHECK(wrap_text("a\n\n  keep   this as it is", 8) ==
        std::vector<std::string>{"a", "", "  keep   this as it is"});
}

TEST_CASE("a table is aligned by display width") {
  TestConsole t;
  Table table({{"task"}, {"score", true}, {"note"}});
  table.row({"größe", "1.25", "x"});
  table.row({"世界", "-10.5", ""});
  table.row({"a\nb", "-", "last"});
  table.print(t.console, t.out);
  CHECK(t.out.str() ==
        "task   score  note\n"
        "größe   1.25  x\n"
        "世界   -10.5\n"
        "a\\nb       -  last\n");
  CHECK_THROWS(table.row({"too", "few"}));
}

TEST_CASE("colour only on a terminal, never under NO_COLOR or TERM=dumb") {
  const ScopedVariable term("TERM", "xterm"), no_color("NO_COLOR", nullptr);
  CHECK(TestConsole(true).console.styled("x", Style::kRed) == "\x1b[31mx\x1b[0m");
  CHECK(TestConsole(true).console.styled("x", Style::kPlain) == "x");
  CHECK(TestConsole(false).console.styled("x", Style::kRed) == "x");
  {
    const ScopedVariable set("NO_COLOR", "1");
    CHECK(TestConsole(true).console.styled("x", Style::kRed) == "x");
  }
  {
    const ScopedVariable empty("NO_COLOR", "");
    CHECK(TestConsole(true).console.styled("x", Style::kRed, true) == "\x1b[31mx\x1b[0m");
  }
  const ScopedVariable dumb("TERM", "dumb");
  CHECK(TestConsole(true).console.styled("x", Style::kRed) == "x");
}

TEST_CASE("warnings always, notes unless quiet, details if verbose") {
  TestConsole normal, quiet(false, true), verbose(false, false, true);
  for (TestConsole* t : {&normal, &quiet, &verbose}) {
    t->console.warning("w\x1b");
    t->console.note("n");
    t->console.detail("d");
    CHECK(t->out.str().empty());
  }
  CHECK(normal.err.str() == "rope-profiler: warning: w\\x1b\nn\n");
  CHECK(quiet.err.str() == "rope-profiler: warning: w\\x1b\n");
  CHECK(verbose.err.str() == "rope-profiler: warning: w\\x1b\nn\nd\n");
}

TEST_CASE("progress is silent off a terminal and for short jobs") {
  const ScopedVariable term("TERM", "xterm");
  for (const bool terminal : {false, true}) {
    TestConsole t(terminal);
    {
      Progress progress(t.console, "examples", 10);
      for (int i = 0; i < 10; ++i) progress.advance();
    }
    CHECK(t.err.str().empty());
  }
}

}  // namespace rope::cli
TEST_SUITE_END();
