#include "profiler/inspection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "profiler/error.hpp"
#include "spectral/band_split.hpp"

namespace rope {
namespace {

/// Runs one more check after those of the file itself.
template <class Check>
bool checked(Inspection& out, const std::string& name, Check&& check) {
  CheckResult result;
  result.name = name;
  try {
    check();
  } catch (const UserError& failure) {
    result.passed = false;
    result.detail = failure.what();
    if (result.detail.starts_with(out.file + ": ")) result.detail.erase(0, out.file.size() + 2);
    result.hint = failure.hint();
  }
  out.checks.push_back(result);
  return result.passed;
}

void describe_windows(const ActivationFile& file, InspectedTask& task, std::set<std::int64_t>& windows) {
  constexpr std::int64_t kBlock = 4096;
  double sum = 0;
  task.window_min = std::int64_t{1} << 62;
  for (std::int64_t first = 0; first < task.header.examples; first += kBlock)
    for (const std::int64_t window :
         file.read_windows(task.header, first, std::min(kBlock, task.header.examples - first))) {
      windows.insert(window);
      task.window_min = std::min(task.window_min, window);
      task.window_max = std::max(task.window_max, window);
      sum += static_cast<double>(window);
    }
  task.window_mean = sum / static_cast<double>(task.header.examples);
  task.windows_known = true;
}

void warn_of_vectors(const std::string& task, const char* side, const VectorScan::Side& found,
                     std::vector<std::string>& warnings) {
  const auto say = [&](std::int64_t count, const char* what) {
    if (count > 0)
      warnings.push_back(
          fmt::format("task {}: {} of {} {} vectors {}", task, count, found.vectors, side, what));
  };
  say(found.non_finite, "hold an infinity or NaN; scores leave them out and count them");
  say(found.zero, "are zero; scores leave them out as undefined and count them");
}

void describe_task(const ActivationFile& file, const TaskHeader& header, std::set<std::int64_t>& windows,
                   Inspection& out) {
  InspectedTask task;
  task.header = header;
  try {
    describe_windows(file, task, windows);
  } catch (const UserError&) {  // among the checks already
  }
  checked(out, "/tasks/" + header.name + ": vectors can be read", [&] {
    task.scan = scan_vectors(file, header);
    warn_of_vectors(header.name, "query", task.scan->query, out.warnings);
    warn_of_vectors(header.name, "key", task.scan->key, out.warnings);
    if (task.scan->query.slots == 0 || task.scan->key.slots == 0)
      out.warnings.push_back(fmt::format("task {}: no used {} slot", header.name,
                                         task.scan->query.slots == 0 ? "query" : "key"));
  });
  out.tasks.push_back(std::move(task));
}

int size_of(const spectral::SplitRule& rule, const spectral::FrequencyGrid& grid, std::int64_t window) {
  const std::vector<char> mask = spectral::high_frequency_mask(rule, grid.omega, grid.rho, window);
  return static_cast<int>(std::count(mask.begin(), mask.end(), 1));
}

void describe_splits(InspectedLayer& layer, std::int64_t largest_window) {
  const spectral::FrequencyGrid& grid = layer.grids.back().grid;
  layer.pairs =
      static_cast<int>(std::count_if(grid.omega.begin(), grid.omega.end(), [](double w) { return w > 0; }));
  layer.split_window = layer.facts.window > 0 ? std::min(layer.facts.window, largest_window) : largest_window;
  if (layer.split_window <= 0) return;
  layer.operational = size_of(spectral::parse_split("operational"), grid, layer.split_window);
  layer.intervention = size_of(spectral::parse_split("intervention"), grid, layer.split_window);
  layer.certified = size_of(spectral::parse_split("certified"), grid, layer.split_window);
  layer.separation = size_of(spectral::parse_split("separation"), grid, layer.split_window);
}

void describe_layers(const ResolvedModel& model, const std::set<int>& stored,
                     const std::set<std::int64_t>& windows, Inspection& out) {
  out.model_type = model.model_type();
  const std::int64_t largest = windows.empty() ? 0 : *windows.rbegin();
  for (const LayerModel& facts : model.layers()) {
    InspectedLayer layer;
    layer.facts = facts;
    layer.stored = stored.count(facts.layer) > 0;
    if (facts.rotates) {
      layer.shared_by_heads = model.shared_by_heads(facts.layer);
      const bool by_length = model.depends_on_length(facts.layer);
      for (const std::int64_t window : windows) {
        InspectedLayer::Grid grid{window, model.grid(facts.layer, 0, window)};
        if (layer.grids.empty() || grid.grid.omega != layer.grids.back().grid.omega ||
            grid.grid.attention_factor != layer.grids.back().grid.attention_factor)
          layer.grids.push_back(std::move(grid));
        if (!by_length) break;
      }
      if (layer.grids.empty()) layer.grids.push_back({0, model.grid(facts.layer, 0, 2)});
      describe_splits(layer, largest);
    }
    out.layers.push_back(std::move(layer));
  }
  out.layer_groups = model.groups();
}

void describe_model(const ActivationFile& file, const std::set<std::int64_t>& windows, Inspection& out) {
  const ModelHeader& header = file.model();
  if (!header.config && header.inv_freq_shape.empty()) {
    out.warnings.push_back(
        "the file holds neither a config nor inv_freq, so the frequencies are unknown; profile needs "
        "--config");
    return;
  }
  std::set<int> stored;
  for (const TaskHeader& task : file.tasks()) stored.insert(task.layers.begin(), task.layers.end());
  checked(out, "/model: frequencies and logit scale", [&] {
    const ResolvedModel model =
        ResolvedModel::resolve(header, std::nullopt, "", Trust::kError, {stored.begin(), stored.end()},
                               {windows.begin(), windows.end()});
    out.warnings.insert(out.warnings.end(), model.warnings().begin(), model.warnings().end());
    describe_layers(model, stored, windows, out);
  });
}

}  // namespace

bool Inspection::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const CheckResult& check) { return check.passed; });
}

Inspection inspect_file(const std::string& path) {
  Inspection out;
  out.file = path;
  out.checks = ActivationFile::check(path);
  std::optional<ActivationFile> file;
  try {
    file.emplace(path);
  } catch (const UserError&) {  // the checks say why
    if (out.passed()) throw;
    return out;
  }
  out.model = file->model();
  out.created_by = file->created_by();
  out.warnings = file->warnings();
  std::set<std::int64_t> windows;
  for (const TaskHeader& task : file->tasks()) describe_task(*file, task, windows, out);
  describe_model(*file, windows, out);
  return out;
}

}  // namespace rope
