#include "profiler/hdf5_handle.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace rope {
namespace {

herr_t collect(unsigned, const H5E_error2_t* error, void* out) {
  if (error->desc && *error->desc) static_cast<std::vector<std::string>*>(out)->push_back(error->desc);
  return 0;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_hdf5() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

void silence_hdf5() {
  // Handles close themselves; the library's clean-up at exit crashes on data that a full disk did not take.
  [[maybe_unused]] static const herr_t once = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_error_text() {
  std::vector<std::string> reasons;  // from the innermost call outwards
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reasons);
  H5Eclear2(H5E_DEFAULT);
  if (reasons.empty()) return "no detail";
  for (const std::string& reason : reasons) {  // what the system said, without addresses and descriptors
    constexpr std::string_view kBefore = "error message = '";
    const std::size_t start = reason.find(kBefore);
    if (start == std::string::npos) continue;
    const std::size_t first = start + kBefore.size(), end = reason.find('\'', first);
    return reason.substr(0, reason.find(':')) + ": " + reason.substr(first, end - first);
  }
  std::string text = reasons.back();
  if (reasons.front() != reasons.back()) text += " (" + reasons.front() + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace rope
