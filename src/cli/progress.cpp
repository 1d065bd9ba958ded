#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <ostream>

#include "cli/console.hpp"
#include "cli/text.hpp"

namespace rope::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kFirstAfter = 0.5, kEvery = 0.1;  // seconds: short jobs show nothing
constexpr const char* kEraseLine = "\r\x1b[K";

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(seconds, 359999.0));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rate_text(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.2g}", rate);
}

}  // namespace

struct Progress::Impl {
  Console* console;
  std::string what;
  std::int64_t total, done = 0;
  bool shown, drawn = false;
  Clock::time_point start = Clock::now(), last = start;
  std::mutex mutex;

  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  std::string text(Clock::time_point now) const {
    const double elapsed = seconds(now - start);
    const double rate = static_cast<double>(done) / elapsed;
    if (total <= 0) return fmt::format("{} {}  {}/s", done, what, rate_text(rate));
    const double left = rate > 0 ? static_cast<double>(std::max<std::int64_t>(total - done, 0)) / rate : 0;
    return fmt::format("{}/{} {}  {}%  {}/s  {} left", done, total, what,
                       std::min<std::int64_t>(100, 100 * done / total), rate_text(rate), clock_text(left));
  }

  void draw(Clock::time_point now) {
    std::string line = text(now);
    const auto limit = static_cast<std::size_t>(std::max(20, console->streams().width - 1));
    if (line.size() > limit) line.resize(limit);
    console->err() << kEraseLine << line << std::flush;
    drawn = true;
    last = now;
  }

  void erase() {
    if (drawn) console->err() << kEraseLine << std::flush;
    drawn = false;
  }
};

Progress::Progress(Console& console, const std::string& what, std::int64_t total)
    : impl_(std::make_unique<Impl>()) {
  const char* term = std::getenv("TERM");
  impl_->console = &console;
  impl_->what = printable(what);
  impl_->total = total;
  impl_->shown =
      console.streams().err_is_terminal && !console.quiet() && !(term && std::string(term) == "dumb");
  console.progress_ = this;
}

Progress::~Progress() {
  const std::lock_guard lock(impl_->mutex);
  impl_->erase();
  if (impl_->console->progress_ == this) impl_->console->progress_ = nullptr;
}

void Progress::advance(std::int64_t by) {
  const std::lock_guard lock(impl_->mutex);
  impl_->done += by;
  if (!impl_->shown) return;
  const auto now = Clock::now();
  if (Impl::seconds(now - impl_->start) < kFirstAfter || Impl::seconds(now - impl_->last) < kEvery) return;
  impl_->draw(now);
}

void Console::line(const std::string& label, Style style, const std::string& sentence) {
  if (progress_) {
    const std::lock_guard lock(progress_->impl_->mutex);
    progress_->impl_->erase();
  }
  if (!label.empty()) err() << "rope-profiler: " << styled(label, style, true);
  err() << printable(sentence) << '\n';
}

}  // namespace rope::cli
