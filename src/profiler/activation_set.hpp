#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/model_config.hpp"

namespace rope {

/// Where some layers of one example are stored.
struct ExamplePart {
  int file = 0;          ///< index into ActivationSet::files()
  int task = 0;          ///< index into that file's tasks()
  std::int64_t row = 0;  ///< index along the axis E
};

/// One example of a task. Its layers may lie in several files.
struct SetExample {
  std::string id;
  std::int64_t window = 0;         ///< full input length in tokens
  std::vector<ExamplePart> parts;  ///< by first layer, so that file order does not matter
};

struct SetTask {
  std::string name, family, source;
  std::int64_t nominal_length = 0;
  std::vector<int> layers;           ///< union over its files, rising
  std::vector<SetExample> examples;  ///< in natural order of their ids
};

/// One stored (layer, query head), layer-major.
struct SetHead {
  int layer = 0, head = 0;
  bool rotates = true;
};

struct ActivationSetOptions {
  std::optional<std::string> config_path;  ///< `--config F`
  Trust trust = Trust::kError;
  std::vector<std::string> task_globs;                ///< empty: every task
  std::int64_t chunk_bytes = std::int64_t{64} << 20;  ///< of decoded chunks kept for later, in all
};

/// Several caches of one model, seen as one. Nothing in it depends on the order in which the files were given
/// (files() aside). Keeps an index of the examples (about 100 bytes each), no vectors.
class ActivationSet {
 public:
  /// Throws UserError where a file is unusable or two files disagree (which, and where).
  ActivationSet(const std::vector<std::string>& paths, const ActivationSetOptions& options);

  const std::vector<ActivationFile>& files() const { return files_; }
  const ResolvedModel& model(int file) const { return models_[static_cast<std::size_t>(file)]; }
  const std::vector<SetTask>& tasks() const { return tasks_; }  ///< by name
  const std::vector<SetHead>& heads() const { return heads_; }
  /// Index of (layer, head 0) in heads(), or -1 where no task stores the layer.
  std::int64_t first_head(int layer) const;
  /// The resolved layer of the file that stores it.
  const LayerModel& layer(int layer) const;
  int file_of_layer(int layer) const;
  std::vector<std::string> warnings() const;  ///< of headers and models: sorted, each once

 private:
  void resolve_models(const ActivationSetOptions& options);
  void require_one_model() const;
  void collect_examples(const std::vector<std::string>& globs);
  void collect_heads();
  bool rotates(int layer, int head) const;

  std::vector<ActivationFile> files_;
  std::vector<ResolvedModel> models_;
  std::vector<SetTask> tasks_;
  std::vector<SetHead> heads_;
  std::vector<std::int64_t> first_head_;  // by layer
  std::vector<int> layer_file_;           // by layer, -1: not stored
};

/// Order of ids as people read them: runs of digits by value ("q2" before "q10"), then bytewise. A strict
/// total order.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace rope
