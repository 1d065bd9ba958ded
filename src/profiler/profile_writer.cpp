#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "profiler/error.hpp"
#include "profiler/hdf5_write.hpp"
#include "profiler/profile_file.hpp"

namespace rope {
namespace {

using namespace detail;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kChunkBytes = 1 << 16;
constexpr bool kStoredOrder = std::endian::native == std::endian::little;

/// One member of every row as a vector.
template <class T, class Row, class Get>
std::vector<T> gather(const std::vector<Row>& rows, Get get) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<T>(get(row)));
  return values;
}

/// True where deflating pays: the missing values of heads that were not scored. Scores themselves shrink by a
/// tenth at best, in more time than all else of a profile's writing takes.
bool mostly_repeats(std::span<const std::uint64_t> values) {
  std::size_t repeats = 0;
  for (std::size_t i = 1; i < values.size(); ++i) repeats += values[i] == values[i - 1];
  return 4 * repeats >= values.size();
}

void write_layers(hid_t file, const std::vector<ProfileLayer>& layers, const std::string& name) {
  const Hdf5Handle group = create_group(file, "layers", name);
  const auto integers = [&](const char* column, const char* unit, const char* meaning, auto member) {
    put_column(group.get(), column,
               gather<std::int64_t>(layers, [&](const ProfileLayer& l) { return l.*member; }), unit, meaning,
               name);
  };
  const auto reals = [&](const char* column, const char* unit, const char* meaning, auto member) {
    put_column(group.get(), column, gather<double>(layers, [&](const ProfileLayer& l) { return l.*member; }),
               unit, meaning, name);
  };
  const auto texts = [&](const char* column, const char* meaning, auto member) {
    put_column(group.get(), column,
               gather<std::string>(layers, [&](const ProfileLayer& l) { return l.*member; }), meaning, name);
  };
  integers("layer", "1", "layer of the model, counted from 0", &ProfileLayer::layer);
  texts("kind", "kind of attention", &ProfileLayer::kind);
  texts("rope_type", "scaling rule of the rotary embedding", &ProfileLayer::rope_type);
  reals("theta", "1", "base of the rotary embedding", &ProfileLayer::theta);
  reals("attention_factor", "1", "factor on the cos and sin tables of both sides",
        &ProfileLayer::attention_factor);
  reals("logit_scale", "1", "softmax scale c, without attention_factor", &ProfileLayer::logit_scale);
  reals("softcap", "1", "cap * tanh(S / cap) in softmaxes; 0 = none", &ProfileLayer::softcap);
  integers("window", "tokens", "sliding window or chunk; 0 = none", &ProfileLayer::window);
  integers("pairs", "frequencies", "pairs that rotate", &ProfileLayer::pairs);
  integers("rotary_dim", "lanes", "rotary width of a head", &ProfileLayer::rotary_dim);
  integers("head_dim", "lanes", "width of a head", &ProfileLayer::head_dim);
  integers("query_heads", "heads", "query heads of the layer", &ProfileLayer::query_heads);
  integers("kv_heads", "heads", "key heads of the layer", &ProfileLayer::kv_heads);
  put_column(group.get(), "norm_after_rotation",
             gather<char>(layers, [](const ProfileLayer& l) { return l.norm_after_rotation ? 1 : 0; }),
             "1: queries and keys are normalised between the rotation and the product", name);
}

void write_grids(hid_t file, const ProfileHeader& header, const std::string& name) {
  const Hdf5Handle group = create_group(file, "grids", name);
  std::vector<double> omega;
  for (const ProfileGrid& grid : header.grids)
    omega.insert(omega.end(), grid.omega.begin(), grid.omega.end());
  put_column(group.get(), "omega", omega, "rad/token", "frequencies of all grids, one after the other", name);
  const auto integers = [&](const char* column, const auto& rows, const char* unit, const char* meaning,
                            auto get) {
    put_column(group.get(), column, gather<std::int64_t>(rows, get), unit, meaning, name);
  };
  integers("width", header.grids, "frequencies", "pairs of each grid",
           [](const ProfileGrid& g) { return g.omega.size(); });
  put_column(group.get(), "rho", gather<double>(header.grids, [](const ProfileGrid& g) { return g.rho; }),
             "1", "ratio of neighbouring frequencies of the unscaled base", name);
  put_column(group.get(), "attention_factor",
             gather<double>(header.grids, [](const ProfileGrid& g) { return g.attention_factor; }), "1",
             "factor on the cos and sin tables of both sides", name);
  integers("use_layer", header.grid_uses, "1", "layer that uses a grid",
           [](const GridUse& use) { return use.layer; });
  integers("use_head", header.grid_uses, "1", "head of that layer; -1 = every head",
           [](const GridUse& use) { return use.head; });
  integers("use_window", header.grid_uses, "tokens", "length of the examples; 0 = any",
           [](const GridUse& use) { return use.window; });
  integers("use_grid", header.grid_uses, "1", "which grid", [](const GridUse& use) { return use.grid; });
}

void write_heads(hid_t file, const std::vector<ProfileHead>& heads, const std::string& name) {
  const Hdf5Handle group = create_group(file, "heads", name);
  put_column(group.get(), "layer", gather<std::int64_t>(heads, [](auto& h) { return h.layer; }), "1",
             "layer of each head (axis 1 of the tables in /tasks), counted from 0", name);
  put_column(group.get(), "head", gather<std::int64_t>(heads, [](auto& h) { return h.head; }), "1",
             "query head within its layer, counted from 0", name);
  put_column(group.get(), "rotates", gather<char>(heads, [](auto& h) { return h.rotates ? 1 : 0; }),
             "1: rotary head; 0: no rotation, no scores", name);
}

}  // namespace

struct ProfileWriter::Impl {
  /// A table of one row per example, and rows of one of its chunks that wait to be written together.
  struct Table {
    Hdf5Handle dataset;
    hsize_t chunk_rows = 1;
    hsize_t first = 0, count = 0;
    hsize_t rows = 0;
    bool reals = false;
    std::vector<std::uint64_t> values;
  };
  struct Task {
    ProfileTask info;
    std::vector<std::string> ids;  // of the examples put so far, until written
    std::vector<std::int64_t> windows;
    bool examples_written = false;
  };

  Impl(const std::string& path, bool force) : out(path, force), name(path.empty() ? "scratch file" : path) {}

  AtomicFile out;
  std::string name;  // for messages
  std::size_t heads = 0;
  std::map<std::string, Task> tasks;
  // Declared after `out`: closed before the file is renamed or removed.
  Hdf5Handle file, task_root;
  // Open datasets of one task; puts come task by task.
  std::string open_task;
  Hdf5Handle group;
  std::array<Table, static_cast<std::size_t>(Score::kCount)> scores;
  std::array<Table, static_cast<std::size_t>(Count::kCount)> counts;

  Task& task(const std::string& task_name, std::int64_t row) {
    const auto found = tasks.find(task_name);
    if (found == tasks.end()) throw std::logic_error("profile: task not added: " + task_name);
    if (row < 0 || row >= found->second.info.examples) throw std::logic_error("profile: row out of range");
    return found->second;
  }

  void close_task() {
    for (auto& table : scores) close_table(table);
    for (auto& table : counts) close_table(table);
    group.close();
    open_task.clear();
  }

  void open(const std::string& task_name) {
    if (group.valid() && open_task == task_name) return;
    close_task();
    group = Hdf5Handle(written(H5Gopen2(task_root.get(), task_name.c_str(), H5P_DEFAULT), name));
    open_task = task_name;
  }

  void open_table(Table& table, const ColumnInfo& info, bool reals, std::int64_t rows) {
    if (table.dataset.valid()) return;
    table.chunk_rows = std::max<std::size_t>(1, kChunkBytes / (8 * std::max<std::size_t>(heads, 1)));
    table.rows = static_cast<hsize_t>(rows);
    table.reals = reals;
    if (H5Lexists(group.get(), info.name, H5P_DEFAULT) > 0) {
      table.dataset = Hdf5Handle(written(H5Dopen2(group.get(), info.name, H5P_DEFAULT), name));
    } else {
      table.dataset = create_dataset(group.get(), info.name, reals ? H5T_IEEE_F64LE : H5T_STD_I64LE,
                                     {{table.rows, heads}, table.chunk_rows}, reals ? &kNaN : nullptr, name);
      put_attribute(table.dataset.get(), "units", std::string(info.unit), name);
      put_attribute(table.dataset.get(), "meaning", std::string(info.meaning), name);
      put_attribute(table.dataset.get(), "axes", std::string("example, head"), name);
    }
  }

  void write_rows(Table& table) {
    if (table.count == 0) return;
    const hsize_t chunk_rows = std::min(table.chunk_rows, table.rows);
    const bool whole = table.count == chunk_rows && table.first % chunk_rows == 0;
    if (table.reals && whole && kStoredOrder && !mostly_repeats(table.values))
      write_chunk_as_is(table.dataset.get(), {table.first, 0}, std::as_bytes(std::span(table.values)), name);
    else
      write_block(table);
    table.count = 0;
    table.values.clear();
  }

  void write_block(const Table& table) {
    const hsize_t start[2] = {table.first, 0}, count[2] = {table.count, heads};
    const Hdf5Handle there(written(H5Dget_space(table.dataset.get()), name));
    written(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start, nullptr, count, nullptr), name);
    const Hdf5Handle here(written(H5Screate_simple(2, count, nullptr), name));
    written(H5Dwrite(table.dataset.get(), table.reals ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, here.get(),
                     there.get(), H5P_DEFAULT, table.values.data()),
            name);
  }

  /// Values of 8 bytes, one per head.
  void add_row(Table& table, std::int64_t row, const void* values) {
    if (heads == 0) return;
    const auto at = static_cast<hsize_t>(row);
    if (table.count > 0 && at != table.first + table.count) write_rows(table);
    if (table.count == 0) table.first = at;
    const std::size_t old = table.values.size();
    table.values.resize(old + heads);
    std::memcpy(table.values.data() + old, values, heads * sizeof(std::uint64_t));
    ++table.count;
    if ((at + 1) % table.chunk_rows == 0) write_rows(table);
  }

  void close_table(Table& table) {
    if (!table.dataset.valid()) return;
    write_rows(table);
    written(table.dataset.close() ? 0 : -1, name);
  }

  void write_examples(Task& task) {
    if (task.examples_written) return;
    open(task.info.name);
    task.ids.resize(task.info.examples);
    task.windows.resize(task.info.examples);
    put_column(group.get(), "example_id", task.ids, "name of each example (axis 0 of the tables)", name,
               static_cast<hsize_t>(task.info.examples));
    put_column(group.get(), "window", task.windows, "tokens", "full input length of each example", name);
    task.examples_written = true;
    task.ids = {};
    task.windows = {};
  }
};

ProfileWriter::ProfileWriter(const std::string& path, bool force, const ProfileHeader& header)
    : impl_(std::make_unique<Impl>(path, force)) {
  const auto lock = lock_hdf5();
  silence_hdf5();
  auto& w = *impl_;
  w.heads = header.heads.size();
  w.file = create_file(w.out.partial_path(), w.name);
  const hid_t file = w.file.get();
  put_attribute(file, "format", std::string("rope-profiler/profile"), w.name);
  put_attribute(file, "format_version", std::int64_t{1}, w.name);
  put_attribute(file, "tool_version", header.tool_version, w.name);
  const Hdf5Handle model = create_group(file, "model", w.name);
  put_attribute(model.get(), "name", header.model_name, w.name);
  put_attribute(model.get(), "model_type", header.model_type, w.name);
  put_attribute(model.get(), "num_layers", std::int64_t{header.num_layers}, w.name);
  if (!header.rope_layout.empty()) put_attribute(model.get(), "rope_layout", header.rope_layout, w.name);
  const Hdf5Handle settings = create_group(file, "settings", w.name, true);
  for (const auto& [key, value] : header.settings) put_attribute(settings.get(), key.c_str(), value, w.name);
  put_column(file, "warnings", header.warnings, "what the user should know about these numbers", w.name);
  write_layers(file, header.layers, w.name);
  write_heads(file, header.heads, w.name);
  if (!header.grids.empty()) write_grids(file, header, w.name);
  w.task_root = create_group(file, "tasks", w.name);
}

ProfileWriter::~ProfileWriter() {
  const auto lock = lock_hdf5();
  impl_.reset();
}

void ProfileWriter::add_task(const ProfileTask& task) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  if (!w.tasks.emplace(task.name, Impl::Task{task, {}, {}, false}).second)
    throw std::logic_error("profile: task added twice: " + task.name);
  const Hdf5Handle group = create_group(w.task_root.get(), task.name, w.name);
  put_attribute(group.get(), "family", task.family, w.name);
  put_attribute(group.get(), "source", task.source, w.name);
  put_attribute(group.get(), "nominal_length", task.nominal_length, w.name);
  put_attribute(group.get(), "examples", task.examples, w.name);
  put_column(group.get(), "layers", std::vector<std::int64_t>(task.layers.begin(), task.layers.end()), "1",
             "layers of the model that are stored for this task", w.name);
}

void ProfileWriter::put_example(const std::string& task, std::int64_t row, const std::string& id,
                                std::int64_t window) {
  const auto lock = lock_hdf5();
  auto& state = impl_->task(task, row);
  if (state.examples_written) throw std::logic_error("profile: put_example after flush");
  const auto at = static_cast<std::size_t>(row);
  if (state.ids.size() <= at) {
    state.ids.resize(at + 1);
    state.windows.resize(at + 1);
  }
  state.ids[at] = id;
  state.windows[at] = window;
  if (row + 1 == state.info.examples) impl_->write_examples(state);  // rows come in order
}

void ProfileWriter::put(const std::string& task, Score score, std::int64_t row,
                        std::span<const double> values) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  const auto& state = w.task(task, row);
  if (values.size() != w.heads) throw std::logic_error("profile: one value per head expected");
  w.open(task);
  auto& table = w.scores[static_cast<std::size_t>(score)];
  w.open_table(table, column(score), true, state.info.examples);
  w.add_row(table, row, values.data());
}

void ProfileWriter::put(const std::string& task, Count count, std::int64_t row,
                        std::span<const std::int64_t> values) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  const auto& state = w.task(task, row);
  if (values.size() != w.heads) throw std::logic_error("profile: one value per head expected");
  w.open(task);
  auto& table = w.counts[static_cast<std::size_t>(count)];
  w.open_table(table, column(count), false, state.info.examples);
  w.add_row(table, row, values.data());
}

void ProfileWriter::put_usage(const std::string& task, const std::vector<UsageSpectrum>& spectra) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  w.open(task);
  const Hdf5Handle all = create_group(w.group.get(), "usage", w.name);
  for (std::size_t k = 0; k < spectra.size(); ++k) {
    const auto& s = spectra[k];
    const hsize_t rows = s.heads.size(), pairs = s.omega.size();
    const Hdf5Handle group = create_group(all.get(), std::to_string(k), w.name);
    put_column(group.get(), "omega", s.omega, "rad/token",
               "frequency of each pair; 0 = a pair that does not rotate", w.name);
    put_column(group.get(), "heads", s.heads, "1", "rows of /heads that these spectra belong to", w.name);
    put_column(group.get(), "examples", s.examples, "examples", "how many examples each mean is over",
               w.name);
    put_column(group.get(), "usage", s.usage, "1", "mean over examples of mean |Re(z e^(i m omega))|", w.name,
               {rows, pairs});
    put_column(group.get(), "usage_norm", s.usage_norm, "1", "mean over examples of mean |z|", w.name,
               {rows, pairs});
  }
}

void ProfileWriter::put_selection(const HeadSelection& selection) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  const Hdf5Handle group = create_group(w.file.get(), "selection", w.name);
  put_attribute(group.get(), "rule", selection.rule, w.name);
  put_attribute(group.get(), "counted", selection.counted, w.name);
  put_column(group.get(), "selected", selection.selected, "1: scored in full and part of the tasks' means",
             w.name);
  put_column(group.get(), "variance", selection.variance, "1",
             "sample variance over tasks of the mean norm_share; NaN = undefined", w.name);
  put_column(group.get(), "order", selection.order, "1",
             "rows of /heads that can be selected, in falling variance", w.name);
  put_column(group.get(), "status", selection.status,
             "0 ranked, 1 no rotation, 2 not stored in some task, 3 no norm_share in some task", w.name);
}

void ProfileWriter::put_inputs(const std::vector<ProfileInput>& inputs) {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  const Hdf5Handle group = create_group(w.file.get(), "inputs", w.name);
  put_column(group.get(), "name", gather<std::string>(inputs, [](auto& i) { return i.name; }),
             "activation caches that were read", w.name);
  put_column(group.get(), "sha256", gather<std::string>(inputs, [](auto& i) { return i.sha256; }),
             "SHA-256 of each; empty where not computed", w.name);
  put_column(group.get(), "bytes", gather<std::int64_t>(inputs, [](auto& i) { return i.bytes; }), "bytes",
             "size of each", w.name);
}

std::string ProfileWriter::flush() {
  const auto lock = lock_hdf5();
  auto& w = *impl_;
  for (auto& [name, task] : w.tasks) w.write_examples(task);
  w.close_task();
  written(H5Fflush(w.file.get(), H5F_SCOPE_GLOBAL), w.name);
  return w.out.partial_path();
}

void ProfileWriter::commit() {
  const auto lock = lock_hdf5();
  flush();
  auto& w = *impl_;
  w.task_root.close();
  written(w.file.close() ? 0 : -1, w.name);
  w.out.commit();
}

}  // namespace rope
