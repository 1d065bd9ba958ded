#include "profiler/activation_set.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "profiler/error.hpp"
#include "profiler/task_globs.hpp"

namespace rope {
namespace {

constexpr std::int64_t kBlock = 4096;  // examples read at a time

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string describe(const TaskHeader& task, const std::string& file) {
  return file + ": /tasks/" + task.name;
}

// Attributes of one task in several files: what both give must agree.
template <class T>
void merge_attribute(T& kept, const T& given, const T& absent, const char* name, const TaskHeader& task,
                     const std::string& file) {
  if (given == absent) return;
  if (kept != absent && kept != given)
    throw UserError(fmt::format("{}: attribute {}: expected \"{}\" as in the other files, found \"{}\"",
                                describe(task, file), name, kept, given));
  kept = given;
}

}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      while (i < a.size() && a[i] == '0') ++i;
      while (j < b.size() && b[j] == '0') ++j;
      std::size_t end_a = i, end_b = j;
      while (end_a < a.size() && is_digit(a[end_a])) ++end_a;
      while (end_b < b.size() && is_digit(b[end_b])) ++end_b;
      if (end_a - i != end_b - j) return end_a - i < end_b - j;
      const int order = a.compare(i, end_a - i, b, j, end_b - j);
      if (order != 0) return order < 0;
      i = end_a;
      j = end_b;
    } else {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
    }
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;  // equal but for leading zeros
}

ActivationSet::ActivationSet(const std::vector<std::string>& paths, const ActivationSetOptions& options) {
  if (paths.empty()) throw usage_error("no activation cache given");
  files_.reserve(paths.size());
  for (const std::string& path : paths) {
    files_.emplace_back(path);
    files_.back().keep_chunks(options.chunk_bytes / std::ssize(paths) / 2);
  }
  resolve_models(options);
  require_one_model();
  collect_examples(options.task_globs);
  collect_heads();
}

void ActivationSet::resolve_models(const ActivationSetOptions& options) {
  std::optional<std::string> config;
  if (options.config_path) config = read_config_file(*options.config_path);
  for (const ActivationFile& file : files_) {
    std::set<int> layers;
    std::set<std::int64_t> windows;
    for (const TaskHeader& task : file.tasks()) {
      layers.insert(task.layers.begin(), task.layers.end());
      for (std::int64_t first = 0; first < task.examples; first += kBlock) {
        const auto block = file.read_windows(task, first, std::min(kBlock, task.examples - first));
        windows.insert(block.begin(), block.end());
      }
    }
    models_.push_back(ResolvedModel::resolve(file.model(), config, options.config_path.value_or(""),
                                             options.trust, {layers.begin(), layers.end()},
                                             {windows.begin(), windows.end()}));
  }
}

void ActivationSet::require_one_model() const {
  const ModelHeader& first = files_[0].model();
  for (std::size_t f = 1; f < files_.size(); ++f) {
    const ModelHeader& other = files_[f].model();
    const std::string hint = "files given together must hold one model; run them one by one";
    if (other.name != first.name)
      throw input_error(other.file, "/model: attribute name",
                        fmt::format("\"{}\" as in {}", first.name, first.file),
                        fmt::format("\"{}\"", other.name), hint);
    if (other.num_layers != first.num_layers)
      throw input_error(other.file, "/model: attribute num_layers",
                        fmt::format("{} as in {}", first.num_layers, first.file),
                        std::to_string(other.num_layers), hint);
    const std::string difference = models_[0].difference(models_[f]);
    if (!difference.empty())
      throw UserError(fmt::format("{}: /model: differs from {}: {}", other.file, first.file, difference),
                      hint);
  }
}

void ActivationSet::collect_examples(const std::vector<std::string>& globs) {
  struct Building {
    SetTask task;
    std::map<std::string, std::size_t> by_id;
    int files = 0;
    bool without_ids = false;
    std::set<int> layers;
  };
  std::map<std::string, Building> building;
  for (int f = 0; f < static_cast<int>(files_.size()); ++f) {
    const ActivationFile& file = files_[f];
    for (int t = 0; t < static_cast<int>(file.tasks().size()); ++t) {
      const TaskHeader& header = file.tasks()[t];
      if (!matches_any_glob(header.name, globs)) continue;
      Building& b = building[header.name];
      b.task.name = header.name;
      merge_attribute(b.task.family, header.family, {}, "family", header, file.path());
      merge_attribute(b.task.source, header.source, {}, "source", header, file.path());
      merge_attribute(b.task.nominal_length, header.nominal_length, std::int64_t{0}, "nominal_length", header,
                      file.path());
      b.without_ids = b.without_ids || !header.has_example_id;
      if (++b.files > 1 && b.without_ids)
        throw input_error(file.path(), "/tasks/" + header.name + "/example_id",
                          "example ids in every file, since several files hold this task",
                          "a file without them", "write example_id in each file, unique over all of them");
      b.layers.insert(header.layers.begin(), header.layers.end());
      for (std::int64_t first = 0; first < header.examples; first += kBlock) {
        const std::int64_t count = std::min(kBlock, header.examples - first);
        const auto windows = file.read_windows(header, first, count);
        const auto ids = file.read_example_ids(header, first, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto [place, fresh] = b.by_id.try_emplace(ids[i], b.task.examples.size());
          if (fresh) b.task.examples.push_back({ids[i], windows[i], {}});
          SetExample& example = b.task.examples[place->second];
          if (example.window != windows[i])
            throw input_error(
                file.path(), fmt::format("/tasks/{}/window[{}]", header.name, first + i),
                fmt::format("{} as for the other layers of example \"{}\"", example.window, ids[i]),
                std::to_string(windows[i]));
          for (const ExamplePart& part : example.parts) {
            const TaskHeader& had = files_[part.file].tasks()[part.task];
            std::vector<int> both;
            std::set_intersection(had.layers.begin(), had.layers.end(), header.layers.begin(),
                                  header.layers.end(), std::back_inserter(both));
            if (!both.empty())
              throw input_error(file.path(), fmt::format("/tasks/{}/example_id[{}]", header.name, first + i),
                                "an id that is new for its layers",
                                fmt::format("\"{}\", which {} already holds for layer {}", ids[i],
                                            files_[part.file].path(), both.front()),
                                "is a file given twice?");
          }
          example.parts.push_back({f, t, first + i});
        }
      }
    }
  }
  if (building.empty())
    throw UserError(globs.empty() ? files_[0].path() + ": /tasks: expected at least one task, found none"
                                  : "no task matches --tasks",
                    globs.empty() ? "" : "inspect lists the tasks of a file",
                    globs.empty() ? ExitCode::kInput : ExitCode::kUsage);
  for (auto& [name, b] : building) {
    auto first_layer = [&](const ExamplePart& part) {
      return files_[part.file].tasks()[part.task].layers.front();
    };
    for (SetExample& example : b.task.examples)
      std::sort(example.parts.begin(), example.parts.end(),
                [&](const ExamplePart& x, const ExamplePart& y) { return first_layer(x) < first_layer(y); });
    std::sort(b.task.examples.begin(), b.task.examples.end(),
              [](const SetExample& x, const SetExample& y) { return natural_less(x.id, y.id); });
    b.task.layers.assign(b.layers.begin(), b.layers.end());
    tasks_.push_back(std::move(b.task));
  }
}

void ActivationSet::collect_heads() {
  const int num_layers = files_[0].model().num_layers;
  std::vector<int> heads(num_layers, 0);
  layer_file_.assign(num_layers, -1);
  std::set<std::string> wanted;
  for (const SetTask& task : tasks_) wanted.insert(task.name);
  for (int f = 0; f < static_cast<int>(files_.size()); ++f)
    for (const TaskHeader& task : files_[f].tasks()) {
      if (wanted.count(task.name) == 0) continue;
      for (int layer : task.layers) {
        if (layer_file_[layer] >= 0 && heads[layer] != task.query_heads)
          throw input_error(files_[f].path(), "/tasks/" + task.name + "/query",
                            fmt::format("{} query heads in layer {} as in {}", heads[layer], layer,
                                        files_[layer_file_[layer]].path()),
                            std::to_string(task.query_heads));
        heads[layer] = task.query_heads;
        if (layer_file_[layer] < 0) layer_file_[layer] = f;
      }
    }
  first_head_.assign(num_layers, -1);
  for (int layer = 0; layer < num_layers; ++layer) {
    if (layer_file_[layer] < 0) continue;
    first_head_[layer] = static_cast<std::int64_t>(heads_.size());
    for (int head = 0; head < heads[layer]; ++head) heads_.push_back({layer, head, rotates(layer, head)});
  }
}

bool ActivationSet::rotates(int layer, int head) const {
  if (!this->layer(layer).rotates) return false;
  const auto grid = models_[static_cast<std::size_t>(file_of_layer(layer))].grid(layer, head, 2);
  return std::any_of(grid.omega.begin(), grid.omega.end(), [](double omega) { return omega != 0; });
}

std::int64_t ActivationSet::first_head(int layer) const {
  return first_head_[static_cast<std::size_t>(layer)];
}

int ActivationSet::file_of_layer(int layer) const { return layer_file_[static_cast<std::size_t>(layer)]; }

const LayerModel& ActivationSet::layer(int layer) const {
  return models_[static_cast<std::size_t>(file_of_layer(layer))].layers()[static_cast<std::size_t>(layer)];
}

std::vector<std::string> ActivationSet::warnings() const {
  std::set<std::string> all;  // sorted: the order of files must not show
  for (const ActivationFile& file : files_) all.insert(file.warnings().begin(), file.warnings().end());
  for (const ResolvedModel& model : models_) all.insert(model.warnings().begin(), model.warnings().end());
  return {all.begin(), all.end()};
}

}  // namespace rope
