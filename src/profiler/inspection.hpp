#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/model_config.hpp"
#include "profiler/vector_scan.hpp"

namespace rope {

/// One model layer as `inspect` describes it.
struct InspectedLayer {
  LayerModel facts;
  bool stored = false;          ///< some task of the file holds it
  bool shared_by_heads = true;  ///< false: one grid per query head, and `grids` is head 0's
  struct Grid {
    std::int64_t window = 0;  ///< the smallest window of an example that gets this grid
    spectral::FrequencyGrid grid;
  };
  std::vector<Grid> grids;  ///< one, or as many as the examples' windows ask for (dynamic, longrope)
  int pairs = 0;            ///< rotating pairs of the last grid
  /// |H| of the last grid at `split_window`, the largest window capped at the layer's own.
  std::int64_t split_window = 0;
  int operational = 0, intervention = 0, certified = 0, separation = 0;
};

struct InspectedTask {
  TaskHeader header;
  bool windows_known = false;  ///< false where a window breaks the format
  std::int64_t window_min = 0, window_max = 0;
  double window_mean = 0;
  std::optional<VectorScan> scan;  ///< absent where the vectors cannot be read
};

/// Everything that `inspect` says about one file. Where the header breaks the format only `checks` is filled.
struct Inspection {
  std::string file;
  std::optional<ModelHeader> model;
  std::string model_type, created_by;
  std::vector<InspectedLayer> layers;
  std::vector<std::vector<int>> layer_groups;  ///< indexes into `layers` of layers alike in every fact
  std::vector<InspectedTask> tasks;
  std::vector<CheckResult> checks;
  std::vector<std::string> warnings;
  bool passed() const;
};

/// Checks and describes a cache; reads all of it, in blocks. Throws UserError when it is no HDF5 file.
Inspection inspect_file(const std::string& path);

/// {files: [...]}, schemas/inspect.schema.json.
nlohmann::ordered_json inspection_json(const std::vector<Inspection>& files);

}  // namespace rope
