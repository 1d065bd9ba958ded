#include "profiler/hdf5_handle.hpp"

#include <algorithm>
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

void silence_hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string hdf5_error_text() {
  std::vector<std::string> reasons;  // from the innermost call outwards
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reasons);
  H5Eclear2(H5E_DEFAULT);
  if (reasons.empty()) return "no detail";
  std::string text = reasons.back();
  if (reasons.front() != reasons.back()) text += " (" + reasons.front() + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace rope
