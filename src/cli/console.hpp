#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace rope::cli {

/// Where a command prints. Tests hand in string streams; main hands in stdout and stderr.
struct Streams {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool out_is_terminal = false, err_is_terminal = false;
  int width = 100;  ///< of the terminal behind `out`
};

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };

class Progress;

/// Colour only on a terminal, never under NO_COLOR or TERM=dumb. What it prints itself is made printable.
class Console {
 public:
  Console(Streams streams, bool quiet, bool verbose);
  std::ostream& out() { return *streams_.out; }
  std::ostream& err() { return *streams_.err; }
  const Streams& streams() const { return streams_; }
  bool quiet() const { return quiet_; }
  bool verbose() const { return verbose_; }
  std::string styled(const std::string& text, Style style, bool for_err = false) const;
  void warning(const std::string& sentence);  ///< "rope-profiler: warning: ..." on stderr
  void note(const std::string& sentence);     ///< stderr; not under --quiet
  void detail(const std::string& sentence);   ///< stderr; only under --verbose

 private:
  Streams streams_;
  bool quiet_, verbose_, colour_out_, colour_err_;
  Progress* progress_ = nullptr;  // the line on stderr that a message must clear first
  friend class Progress;

  void line(const std::string& label, Style style, const std::string& sentence);
};

/// An aligned table. Numbers right, text left; the header is bold on a terminal. UTF-8 widths are counted in
/// columns. Cells are made printable.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns);
  void row(std::vector<std::string> cells, Style style = Style::kPlain);
  void print(const Console& console, std::ostream& to, bool for_err = false) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::pair<std::vector<std::string>, Style>> rows_;
};

/// Progress with rate and time left on stderr, on a terminal only; erased when done. One at a time per
/// console. `what` names the units, e.g. "examples"; total <= 0: not known. advance() may be called by any
/// thread.
class Progress {
 public:
  Progress(Console& console, const std::string& what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::int64_t by = 1);

 private:
  friend class Console;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Text for a terminal: control characters and invalid UTF-8 of file content are shown escaped.
std::string printable(const std::string& text);
/// "rope-profiler: error: SENTENCE" and, when there is one, "hint: ..." on stderr.
void print_error(const Streams& streams, const std::string& sentence, const std::string& hint);
/// Shortest digits that read back the same float64; empty for NaN.
std::string exact_number(double value);
/// `digits` significant digits (trailing zeros kept, so that columns line up), "-" for NaN; for tables.
std::string short_number(double value, int digits = 5);

}  // namespace rope::cli
