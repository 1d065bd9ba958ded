#pragma once

#include <cstddef>
#include <string>

namespace rope::bench {

struct Machine {
  std::string processor, vendor;
  int family = 0, model = 0;
  bool avx512 = false;
};

/// From /proc/cpuinfo; empty and zero where that says nothing.
Machine this_machine();

/// Operations per pair-distance that bound mean + max + E_2 in one pass on this kind of machine, as counted
/// for a two-level compressed sweep: divided by nanoseconds x multiply-add peak they give the share of the
/// limit reached.
struct Limit {
  std::string name;       ///< empty: no limit is known for this machine
  double operations = 0;  ///< 0: not counted for this h
};

/// Intel: every vector operation takes one of two ports, 17 for the epilogue and the multiply-adds of the
/// compressed products ("slots"). AMD Zen 4: additions have pipes of their own; the multiply pipes carry the
/// products and about 6 multiplications of the exponential.
Limit sweep_limit(const Machine& machine, const std::string& simd, std::size_t h);

}  // namespace rope::bench
