#include "profiler/sweep_engine.hpp"

namespace rope {

SweepEngine cpu_engine() { return {.sweep = spectral::sweep_cpu}; }

}  // namespace rope
