#include "profiler/library_versions.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <openssl/crypto.h>

namespace rope {

std::vector<std::pair<std::string, std::string>> library_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {{"hdf5", fmt::format("{}.{}.{}", major, minor, release)},
          {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)}};
}

}  // namespace rope
