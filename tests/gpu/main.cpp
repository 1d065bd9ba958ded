// Tests that need a CUDA device. Without one the program says why and returns 77: skipped, not passed.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "spectral/backend.hpp"

int main(int argc, char** argv) {
  const auto backends = rope::spectral::list_backends();
  for (const auto& backend : backends) {
    if (backend.name != "cuda") continue;
    if (!backend.usable) {
      std::printf("skipped: %s\n", backend.reason.c_str());
      return 77;
    }
    for (const auto& device : backend.devices)
      std::printf("device %d: %s, compute capability %s\n", device.index, device.name.c_str(),
                  device.capability.c_str());
  }
  return doctest::Context(argc, argv).run();
}
