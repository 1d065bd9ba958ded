#include "machine.hpp"

#include <cstdlib>
#include <fstream>

namespace rope::bench {
namespace {

// Multiply-adds per distance of the compressed products, two levels, for the grid base 1e6.
double products(std::size_t h) {
  switch (h) {
    case 32:
      return 12.2;
    case 64:
      return 18.9;
    case 128:
      return 31.9;
    default:
      return 0;
  }
}

bool is_zen4(const Machine& m) {
  const auto in = [&](int first, int last) { return m.model >= first && m.model <= last; };
  return m.vendor == "AuthenticAMD" && m.family == 25 && (in(0x10, 0x1f) || in(0x60, 0x7f) || in(0xa0, 0xaf));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {  // the first processor
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (key == "model name") machine.processor = value;
    if (key == "vendor_id") machine.vendor = value;
    if (key == "cpu family") machine.family = std::atoi(value.c_str());
    if (key == "model") machine.model = std::atoi(value.c_str());
    if (key == "flags") machine.avx512 = (" " + value + " ").find(" avx512f ") != std::string::npos;
  }
  return machine;
}

Limit sweep_limit(const Machine& machine, const std::string& simd, std::size_t h) {
  const bool wide = simd.starts_with("AVX3");
  if (machine.vendor == "GenuineIntel" && wide)
    return {"slots of two ports (Intel AVX-512)", products(h) > 0 ? products(h) + 17 : 0};
  if (is_zen4(machine) && wide)
    return {"multiply pipes (AMD Zen 4)", products(h) > 0 ? products(h) + 6.1 : 0};
  return {};
}

}  // namespace rope::bench
