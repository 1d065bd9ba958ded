#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rope {

/// A float32 array with a name, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Text that goes with the tensors (key -> value), in this order.
using TensorMetadata = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a safetensors file: its header is JSON with the metadata under `__metadata__`. Equal content
/// gives equal bytes. Names must be distinct.
std::string safetensors_bytes(const std::vector<NamedTensor>& tensors, const TensorMetadata& metadata);

/// The bytes of an .npz for numpy.load, uncompressed, without time stamps: one .npy per tensor, and
/// `metadata`, an array without axes that holds the metadata as the text of a JSON object.
std::string npz_bytes(const std::vector<NamedTensor>& tensors, const TensorMetadata& metadata);

}  // namespace rope
