#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"
#include "profiler/hdf5_guard.hpp"
#include "profiler/profile_file.hpp"
#include "profiler/profile_group.hpp"

namespace rope {
namespace {

int small(const ProfileGroup& group, const char* name, std::int64_t value, std::int64_t low,
          std::int64_t high) {
  if (value < low || value > high)
    group.fail(name, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
  return static_cast<int>(value);
}
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

std::vector<ProfileLayer> read_layers(const ProfileGroup& root) {
  const ProfileGroup group = root.group("layers");
  const auto numbers = group.integers("layer");
  const auto rows = static_cast<std::int64_t>(numbers.size());
  std::vector<ProfileLayer> layers(numbers.size());
  const auto integers = [&](const char* name, auto member) {
    const auto values = group.integers(name, rows);
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].*member = small(group, name, values[i], 0, kMaxInt);
  };
  const auto reals = [&](const char* name, auto member) {
    const auto values = group.reals(name, rows);
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].*member = values[i];
  };
  const auto texts = [&](const char* name, auto member) {
    auto values = group.texts(name, rows);
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].*member = std::move(values[i]);
  };
  integers("layer", &ProfileLayer::layer);
  texts("kind", &ProfileLayer::kind);
  texts("rope_type", &ProfileLayer::rope_type);
  reals("theta", &ProfileLayer::theta);
  reals("attention_factor", &ProfileLayer::attention_factor);
  reals("logit_scale", &ProfileLayer::logit_scale);
  reals("softcap", &ProfileLayer::softcap);
  integers("window", &ProfileLayer::window);
  integers("pairs", &ProfileLayer::pairs);
  integers("rotary_dim", &ProfileLayer::rotary_dim);
  integers("head_dim", &ProfileLayer::head_dim);
  integers("query_heads", &ProfileLayer::query_heads);
  integers("kv_heads", &ProfileLayer::kv_heads);
  if (group.has("norm_after_rotation")) {
    const auto values = group.integers("norm_after_rotation", rows);
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].norm_after_rotation = small(group, "norm_after_rotation", values[i], 0, 1) != 0;
  }
  return layers;
}

std::vector<ProfileGrid> read_grids(const ProfileGroup& group) {
  const auto width = group.integers("width");
  const auto rows = static_cast<std::int64_t>(width.size());
  const auto rho = group.reals("rho", rows), factor = group.reals("attention_factor", rows);
  const auto omega = group.reals("omega");
  std::vector<ProfileGrid> grids(width.size());
  std::size_t start = 0;
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const auto count = static_cast<std::size_t>(small(group, "width", width[i], 0, 1 << 20));
    if (count > omega.size() - start)
      group.fail("omega", "as many frequencies as /grids/width says", std::to_string(omega.size()));
    grids[i].omega.assign(omega.begin() + static_cast<std::ptrdiff_t>(start),
                          omega.begin() + static_cast<std::ptrdiff_t>(start + count));
    start += count;
    for (const double w : grids[i].omega)
      if (!(w >= 0 && w <= 3.2)) group.fail("omega", "frequencies from 0 to pi", std::to_string(w));
    if (!(rho[i] >= 0 && rho[i] <= 1)) group.fail("rho", "0 to 1", std::to_string(rho[i]));
    if (!std::isfinite(factor[i]))
      group.fail("attention_factor", "finite numbers", std::to_string(factor[i]));
    grids[i].rho = rho[i];
    grids[i].attention_factor = factor[i];
  }
  return grids;
}

std::vector<GridUse> read_grid_uses(const ProfileGroup& group, int num_layers, std::size_t grids) {
  const auto layer = group.integers("use_layer");
  const auto rows = static_cast<std::int64_t>(layer.size());
  const auto head = group.integers("use_head", rows), window = group.integers("use_window", rows),
             grid = group.integers("use_grid", rows);
  std::vector<GridUse> uses(layer.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    uses[i] = {small(group, "use_layer", layer[i], 0, num_layers - 1),
               small(group, "use_head", head[i], -1, kMaxInt),
               small(group, "use_window", window[i], 0, 1 << 24),
               small(group, "use_grid", grid[i], 0, static_cast<std::int64_t>(grids) - 1)};
    const auto key = [](const GridUse& u) { return std::tuple(u.layer, u.head, u.window); };
    if (i > 0 && key(uses[i - 1]) >= key(uses[i]))
      group.fail("use_layer", "rising layers, heads and windows",
                 "row " + std::to_string(i) + " out of order");
  }
  return uses;
}

std::vector<ProfileHead> read_heads(const ProfileGroup& root, int num_layers) {
  const ProfileGroup group = root.group("heads");
  const auto layer = group.integers("layer");
  const auto rows = static_cast<std::int64_t>(layer.size());
  const auto head = group.integers("head", rows), rotates = group.integers("rotates", rows);
  std::vector<ProfileHead> heads(layer.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    heads[i].layer = small(group, "layer", layer[i], 0, num_layers - 1);
    heads[i].head = small(group, "head", head[i], 0, kMaxInt);
    heads[i].rotates = small(group, "rotates", rotates[i], 0, 1) != 0;
    if (i > 0 && std::pair(heads[i - 1].layer, heads[i - 1].head) >= std::pair(heads[i].layer, heads[i].head))
      group.fail("head", "rising layers and heads", "row " + std::to_string(i) + " out of order");
  }
  return heads;
}

HeadSelection read_selection(const ProfileGroup& root, std::size_t heads) {
  HeadSelection s;
  s.selected.assign(heads, 0);
  s.status.assign(heads, static_cast<char>(HeadStatus::kRanked));
  s.variance.assign(heads, std::numeric_limits<double>::quiet_NaN());
  if (!root.has("selection")) return s;  // a profile in the making
  const ProfileGroup group = root.group("selection");
  const auto rows = static_cast<std::int64_t>(heads);
  s.rule = group.text("rule");
  s.counted = small(group, "counted", group.integer("counted"), 0, rows);
  const auto selected = group.integers("selected", rows), status = group.integers("status", rows);
  for (std::size_t i = 0; i < heads; ++i) {
    s.selected[i] = static_cast<char>(small(group, "selected", selected[i], 0, 1));
    s.status[i] = static_cast<char>(small(group, "status", status[i], 0, 3));
  }
  s.variance = group.reals("variance", rows);
  s.order = group.integers("order");
  std::vector<char> seen(heads, 0);
  for (const auto head : s.order) {
    if (head < 0 || head >= rows || seen[static_cast<std::size_t>(head)]++)
      group.fail("order", "different rows of /heads", std::to_string(head));
  }
  return s;
}

ProfileTask read_task(const ProfileGroup& tasks, const std::string& name, int num_layers) {
  const ProfileGroup group = tasks.group(name);
  ProfileTask task;
  task.name = name;
  task.family = group.text("family");
  task.source = group.text("source");
  task.nominal_length = group.integer("nominal_length");
  task.examples = group.integer("examples");
  for (const auto layer : group.integers("layers")) {
    task.layers.push_back(small(group, "layers", layer, 0, num_layers - 1));
    if (task.layers.size() > 1 && task.layers.end()[-2] >= task.layers.back())
      group.fail("layers", "rising numbers", std::to_string(layer) + " out of order");
  }
  // Contiguous, so that the file's size bounds the number of examples before anything loops over it.
  if (static_cast<std::int64_t>(group.integers("window").size()) != task.examples)
    group.fail("window", "one value for each of " + std::to_string(task.examples) + " examples", "others");
  return task;
}

constexpr const char* kCacheFormat = "rope-profiler/activations";

}  // namespace

struct ProfileReader::Impl {
  explicit Impl(const std::string& file)
      : path(file), source(file, Hdf5Rules::kOwnFiles), root(source, source.root()) {
    require_format();
    if (const auto version = root.integer("format_version"); version != 1)
      throw input_error(path, "/ (attribute format_version)", "1", std::to_string(version),
                        "a newer rope-profiler wrote it");
    header.tool_version = root.text("tool_version");
    const ProfileGroup model = root.group("model");
    header.model_name = model.text("name");
    header.model_type = model.text("model_type");
    header.num_layers = small(model, "num_layers", model.integer("num_layers"), 0, 1 << 20);
    header.settings = source.texts(root.group("settings").get());
    header.warnings = root.texts("warnings");
    header.layers = read_layers(root);
    header.heads = read_heads(root, header.num_layers);
    if (source.text(model.get().handle.get(), "/model", "rope_layout"))
      header.rope_layout = model.text("rope_layout");
    if (root.has("grids")) {
      const ProfileGroup group = root.group("grids");
      header.grids = read_grids(group);
      header.grid_uses = read_grid_uses(group, header.num_layers, header.grids.size());
    }
    const ProfileGroup all = root.group("tasks");
    for (const auto& name : all.members()) tasks.push_back(read_task(all, name, header.num_layers));
    selection = read_selection(root, header.heads.size());
    if (root.has("inputs")) {
      const ProfileGroup group = root.group("inputs");
      const auto names = group.texts("name");
      const auto rows = static_cast<std::int64_t>(names.size());
      const auto digests = group.texts("sha256", rows);
      const auto bytes = group.integers("bytes", rows);
      for (std::size_t i = 0; i < names.size(); ++i) inputs.push_back({names[i], digests[i], bytes[i]});
    }
  }

  void require_format() const {
    constexpr const char* kFormat = "rope-profiler/profile";
    std::string format;
    try {
      format = root.text("format");
    } catch (const UserError&) {
      if (!is_cache()) throw;
      format = kCacheFormat;
    }
    if (format != kFormat)
      throw input_error(path, "/ (attribute format)", kFormat, quoted(format),
                        format == kCacheFormat ? "this is an activation cache; run profile on it first" : "");
  }

  /// Caches are often given by mistake, and most have their texts in a form that profiles may not have.
  bool is_cache() const {
    std::optional<std::string> format;
    try {
      read_guarded(path, [&] {
        const Hdf5Source cache(path);
        format = cache.text(cache.root().handle.get(), "/", "format");
      });
    } catch (const UserError&) {  // damaged, whatever it is
    }
    return format == kCacheFormat;
  }

  /// The last one asked for stays open: a task's columns are read one after the other.
  const ProfileGroup& task_group(const ProfileTask& task) const {
    if (!open_task || open_name != task.name) {
      open_task.emplace(root.group("tasks").group(task.name));
      open_name = task.name;
    }
    return *open_task;
  }
  std::vector<std::int64_t> shape(const ProfileTask& task) const {
    return {task.examples, static_cast<std::int64_t>(header.heads.size())};
  }
  /// How many values a block of rows has; a caller's mistake is ours.
  std::size_t block(const ProfileTask& task, std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 0 || first > task.examples - count)
      throw std::logic_error("profile: rows out of range");
    return static_cast<std::size_t>(count) * header.heads.size();
  }

  std::string path;
  Hdf5Source source;
  ProfileGroup root;
  ProfileHeader header;
  std::vector<ProfileTask> tasks;
  std::vector<ProfileInput> inputs;
  HeadSelection selection;
  mutable std::string open_name;
  mutable std::optional<ProfileGroup> open_task;
};

const ProfileGrid* ProfileHeader::grid(int layer, int head, std::int64_t window) const {
  const auto key = [](const GridUse& u) { return std::tuple(u.layer, u.head, u.window); };
  for (const int who : {head, -1})
    for (const std::int64_t length : {window, std::int64_t{0}}) {
      const GridUse wanted{layer, who, length, 0};
      const auto found =
          std::lower_bound(grid_uses.begin(), grid_uses.end(), wanted,
                           [&](const GridUse& a, const GridUse& b) { return key(a) < key(b); });
      if (found != grid_uses.end() && key(*found) == key(wanted))
        return &grids[static_cast<std::size_t>(found->grid)];
    }
  return nullptr;
}

ProfileReader::ProfileReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ProfileReader::~ProfileReader() = default;
ProfileReader::ProfileReader(ProfileReader&&) noexcept = default;

const std::string& ProfileReader::path() const { return impl_->path; }
const ProfileHeader& ProfileReader::header() const { return impl_->header; }
const std::vector<ProfileTask>& ProfileReader::tasks() const { return impl_->tasks; }
const std::vector<ProfileInput>& ProfileReader::inputs() const { return impl_->inputs; }
const HeadSelection& ProfileReader::selection() const { return impl_->selection; }

std::vector<std::string> ProfileReader::example_ids(const ProfileTask& task, std::int64_t first,
                                                    std::int64_t count) const {
  impl_->block(task, first, count);
  if (count == 0) return {};
  return impl_->task_group(task).texts("example_id", {task.examples}, first, count);
}

std::vector<std::int64_t> ProfileReader::windows(const ProfileTask& task, std::int64_t first,
                                                 std::int64_t count) const {
  impl_->block(task, first, count);
  const ProfileGroup& group = impl_->task_group(task);
  auto windows = group.integers("window", {task.examples}, first, count);
  for (const auto window : windows) small(group, "window", window, 0, 1 << 24);
  return windows;
}

std::vector<double> ProfileReader::read(const ProfileTask& task, Score score, std::int64_t first,
                                        std::int64_t count) const {
  const std::size_t size = impl_->block(task, first, count);
  const ProfileGroup& group = impl_->task_group(task);
  if (!group.has(column(score).name)) return std::vector<double>(size, std::nan(""));
  return group.reals(column(score).name, impl_->shape(task), first, count);
}

std::vector<std::int64_t> ProfileReader::read(const ProfileTask& task, Count what, std::int64_t first,
                                              std::int64_t count) const {
  const std::size_t size = impl_->block(task, first, count);
  const ProfileGroup& group = impl_->task_group(task);
  if (!group.has(column(what).name)) return std::vector<std::int64_t>(size, 0);
  auto values = group.integers(column(what).name, impl_->shape(task), first, count);
  // A bound that keeps every later sum within 64 bits.
  for (const auto value : values)
    if (value < 0 || value > (std::int64_t{1} << 40))
      group.fail(column(what).name, "counts from 0 to 2^40", std::to_string(value));
  return values;
}

std::vector<UsageSpectrum> ProfileReader::usage(const ProfileTask& task) const {
  const ProfileGroup& group = impl_->task_group(task);
  std::vector<UsageSpectrum> spectra;
  if (!group.has("usage")) return spectra;
  const ProfileGroup all = group.group("usage");
  const std::size_t grids = all.members().size();
  for (std::size_t k = 0; k < grids; ++k) {
    const ProfileGroup one = all.group(std::to_string(k));
    UsageSpectrum s;
    s.omega = one.reals("omega");
    s.heads = one.integers("heads");
    const auto rows = static_cast<std::int64_t>(s.heads.size());
    const auto pairs = static_cast<std::int64_t>(s.omega.size());
    for (const auto head : s.heads)
      if (head < 0 || head >= static_cast<std::int64_t>(impl_->header.heads.size()))
        one.fail("heads", "rows of /heads", std::to_string(head));
    s.examples = one.integers("examples", rows);
    s.usage = one.table("usage", rows, pairs);
    s.usage_norm = one.table("usage_norm", rows, pairs);
    spectra.push_back(std::move(s));
  }
  return spectra;
}

}  // namespace rope
