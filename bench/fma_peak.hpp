#pragma once

namespace rope::bench {

/// Fused multiply-adds per nanosecond and thread on the SIMD target in use, float64, from independent chains
/// in registers: the limit that the sweep's products are held against.
double fma_peak_float64();

/// The same in float32.
double fma_peak_float32();

}  // namespace rope::bench
