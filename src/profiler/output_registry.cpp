#include "profiler/output_registry.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "profiler/atomic_file.hpp"

namespace rope {
namespace detail {
namespace {

constexpr std::size_t kSlots = 64, kNameBytes = 4096;
enum : int { kFree, kFilling, kInUse };

struct Slot {
  std::atomic<int> state{kFree};
  std::array<char, kNameBytes> name{};
};
static_assert(std::atomic<int>::is_always_lock_free, "the handler reads it");
std::array<Slot, kSlots> slots;

}  // namespace

int remember_partial(const std::string& path) noexcept {
  if (path.size() >= kNameBytes) return -1;
  for (std::size_t i = 0; i < kSlots; ++i) {
    int expected = kFree;
    if (!slots[i].state.compare_exchange_strong(expected, kFilling)) continue;
    std::memcpy(slots[i].name.data(), path.c_str(), path.size() + 1);
    slots[i].state.store(kInUse);
    return static_cast<int>(i);
  }
  return -1;
}

void forget_partial(int slot) noexcept {
  if (slot >= 0) slots[static_cast<std::size_t>(slot)].state.store(kFree);
}

void unlink_all_partials() noexcept {
  for (auto& slot : slots)
    if (slot.state.load() == kInUse) unlink(slot.name.data());
}

}  // namespace detail

namespace {

extern "C" void remove_and_die(int signal_number) {
  detail::unlink_all_partials();
  signal(signal_number, SIG_DFL);
  raise(signal_number);  // pending until the handler returns, then fatal
}

}  // namespace

void remove_partial_outputs_on_signals() {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action {};
    action.sa_handler = remove_and_die;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
}

}  // namespace rope
