#include "profiler/cache_writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "profiler/element_convert.hpp"
#include "profiler/error.hpp"
#include "profiler/hdf5_handle.hpp"
#include "profiler/lzf.hpp"

namespace rope {

using Handle = Hdf5Handle;

struct CacheWriter::Impl {
  std::string path;
  Handle file;
  TaskHeader task;
  CacheStorage storage;
  Handle query, key, query_position, key_position, window, example_id, triplets;

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(path + ": cannot write " + what + ": " + hdf5_error_text());
  }
  hid_t must(hid_t id, const std::string& what) const {
    if (id < 0) fail(what);
    return id;
  }
  void attribute(hid_t object, const char* name, const std::string& text) const;
  void attribute(hid_t object, const char* name, std::int64_t value) const;
  void attribute(hid_t object, const char* name, double value) const;
  void attribute(hid_t object, const char* name, hid_t file_type, hid_t memory_type, const void* value) const;
  Handle group(const std::string& name) const;
  Handle dataset(const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
                 const CacheStorage* layout) const;
  void doubles(const std::string& name, const std::vector<hsize_t>& shape,
               const std::vector<double>& values) const;
  Handle element_type(ElementType type) const;
  Handle vectors(const std::string& name, ElementType type, std::int64_t heads, std::int64_t slots) const;
  void put_row(hid_t set, std::int64_t row, std::vector<hsize_t> shape, hid_t memory_type,
               const void* data) const;
  void put_vectors(hid_t set, ElementType type, std::int64_t row, int heads, std::int64_t slots,
                   std::span<const double> values) const;
  void write_model(const ModelHeader& model) const;
};

namespace {

Handle text_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), bytes);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  return type;
}

const char* rotation_name(Rotation rotation) { return rotation == Rotation::kPre ? "pre" : "post"; }

std::vector<hsize_t> sizes(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

void CacheWriter::Impl::attribute(hid_t object, const char* name, hid_t file_type, hid_t memory_type,
                                  const void* value) const {
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attr(must(H5Acreate2(object, name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), name));
  if (H5Awrite(attr.get(), memory_type, value) < 0) fail(name);
}

void CacheWriter::Impl::attribute(hid_t object, const char* name, const std::string& text) const {
  // Variable length: a config may pass the 64 KB that an attribute of fixed size can hold.
  const Handle type = text_type(H5T_VARIABLE);
  const char* data = text.c_str();
  attribute(object, name, type.get(), type.get(), &data);
}

void CacheWriter::Impl::attribute(hid_t object, const char* name, std::int64_t value) const {
  attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void CacheWriter::Impl::attribute(hid_t object, const char* name, double value) const {
  attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

Handle CacheWriter::Impl::group(const std::string& name) const {
  const Handle how(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_obj_track_times(how.get(), false);
  return Handle(must(H5Gcreate2(file.get(), name.c_str(), H5P_DEFAULT, how.get(), H5P_DEFAULT), name));
}

Handle CacheWriter::Impl::dataset(const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
                                  const CacheStorage* layout) const {
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Handle how(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(how.get(), false);
  if (layout != nullptr && !layout->chunk.empty()) {
    if (layout->chunk.size() != shape.size()) throw std::logic_error("chunk rank");
    std::vector<hsize_t> chunk(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i)
      chunk[i] = layout->chunk[i] > 0 ? std::min<hsize_t>(layout->chunk[i], shape[i]) : shape[i];
    H5Pset_chunk(how.get(), static_cast<int>(chunk.size()), chunk.data());
    if (layout->shuffle) H5Pset_shuffle(how.get());
    if (layout->gzip > 0) H5Pset_deflate(how.get(), static_cast<unsigned>(layout->gzip));
    if (layout->lzf) H5Pset_filter(how.get(), kLzfFilter, H5Z_FLAG_OPTIONAL, 0, nullptr);
    if (layout->fletcher32) H5Pset_fletcher32(how.get());
  }
  return Handle(must(
      H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, how.get(), H5P_DEFAULT), name));
}

void CacheWriter::Impl::doubles(const std::string& name, const std::vector<hsize_t>& shape,
                                const std::vector<double>& values) const {
  hsize_t count = 1;
  for (const hsize_t n : shape) count *= n;
  if (count != values.size()) throw std::logic_error(name + " size");
  const Handle set = dataset(name, H5T_IEEE_F64LE, shape, nullptr);
  if (H5Dwrite(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) fail(name);
}

Handle CacheWriter::Impl::element_type(ElementType type) const {
  if (type == ElementType::kBfloat16 && storage.bfloat16_bits)
    return Handle(H5Tcopy(storage.big_endian ? H5T_STD_U16BE : H5T_STD_U16LE));
  if (type == ElementType::kFloat64)
    return Handle(H5Tcopy(storage.big_endian ? H5T_IEEE_F64BE : H5T_IEEE_F64LE));
  Handle made(H5Tcopy(storage.big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE));
  if (type == ElementType::kFloat32) return made;
  const bool half = type == ElementType::kFloat16;
  H5Tset_fields(made.get(), 15, half ? 10 : 7, half ? 5 : 8, 0, half ? 10 : 7);
  H5Tset_precision(made.get(), 16);
  H5Tset_size(made.get(), 2);
  H5Tset_ebias(made.get(), half ? 15 : 127);
  return made;
}

Handle CacheWriter::Impl::vectors(const std::string& name, ElementType type, std::int64_t heads,
                                  std::int64_t slots) const {
  const std::string path_in_file = "/tasks/" + task.name + "/" + name;
  const Handle stored = element_type(type);
  Handle set = dataset(
      path_in_file, stored.get(),
      sizes({task.examples, static_cast<std::int64_t>(task.layers.size()), heads, slots, task.head_dim}),
      &storage);
  if (type == ElementType::kBfloat16 && storage.bfloat16_bits)
    attribute(set.get(), "dtype", std::string("bfloat16"));
  return set;
}

void CacheWriter::Impl::put_row(hid_t set, std::int64_t row, std::vector<hsize_t> shape, hid_t memory_type,
                                const void* data) const {
  std::vector<hsize_t> start(shape.size() + 1, 0);
  start[0] = static_cast<hsize_t>(row);
  shape.insert(shape.begin(), 1);
  const Handle memory(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Handle space(H5Dget_space(set));
  if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr) < 0 ||
      H5Dwrite(set, memory_type, memory.get(), space.get(), H5P_DEFAULT, data) < 0)
    fail("/tasks/" + task.name);
}

void CacheWriter::Impl::put_vectors(hid_t set, ElementType type, std::int64_t row, int heads,
                                    std::int64_t slots, std::span<const double> values) const {
  const std::vector<hsize_t> shape =
      sizes({static_cast<std::int64_t>(task.layers.size()), heads, slots, task.head_dim});
  if (shape[0] * shape[1] * shape[2] * shape[3] != values.size()) throw std::logic_error("vector count");
  const std::size_t size = element_size(type);
  std::vector<std::byte> bytes(values.size() * size);
  store_elements(type, values.data(), values.size(), bytes.data());
  if (storage.big_endian != (std::endian::native == std::endian::big))
    swap_bytes(bytes.data(), values.size(), size);
  const Handle stored(H5Dget_type(set));  // same type on both sides: HDF5 copies, never converts
  put_row(set, row, shape, stored.get(), bytes.data());
}

void CacheWriter::Impl::write_model(const ModelHeader& model) const {
  const Handle group_handle = group("/model");
  const hid_t g = group_handle.get();
  attribute(g, "name", model.name);
  attribute(g, "num_layers", std::int64_t{model.num_layers});
  attribute(g, "num_query_heads", std::int64_t{model.num_query_heads});
  attribute(g, "num_kv_heads", std::int64_t{model.num_kv_heads});
  attribute(g, "head_dim", std::int64_t{model.head_dim});
  attribute(g, "rope_layout",
            std::string(model.layout == spectral::PairLayout::kHalf ? "half" : "interleaved"));
  attribute(g, "query_rotation", std::string(rotation_name(model.query_rotation)));
  attribute(g, "key_rotation", std::string(rotation_name(model.key_rotation)));
  if (model.reversed) attribute(g, "rope_direction", std::string("reversed"));
  if (model.config) attribute(g, "config", *model.config);
  if (model.attention_scale) attribute(g, "attention_scale", *model.attention_scale);
  if (!model.inv_freq_shape.empty()) doubles("/model/inv_freq", sizes(model.inv_freq_shape), model.inv_freq);
  if (!model.sink_logit.empty())
    doubles("/model/sink_logit", sizes({model.num_layers, model.num_query_heads}), model.sink_logit);
}

CacheWriter::CacheWriter(const std::string& path, const ModelHeader& model, const std::string& created_by)
    : impl_(std::make_unique<Impl>()) {
  silence_hdf5();
  register_lzf();
  impl_->path = path;
  impl_->file = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  if (!impl_->file.valid()) impl_->fail("the file");
  const hid_t root = impl_->file.get();
  impl_->attribute(root, "format", std::string("rope-profiler/activations"));
  impl_->attribute(root, "format_version", std::int64_t{1});
  if (!created_by.empty()) impl_->attribute(root, "created_by", created_by);
  impl_->write_model(model);
  impl_->group("/tasks");
}

CacheWriter::~CacheWriter() = default;
CacheWriter::CacheWriter(CacheWriter&&) noexcept = default;
CacheWriter& CacheWriter::operator=(CacheWriter&&) noexcept = default;

void CacheWriter::begin_task(const TaskHeader& task, const CacheStorage& storage) {
  silence_hdf5();
  Impl& io = *impl_;
  io.task = task;
  io.storage = storage;
  const std::string at = "/tasks/" + task.name;
  const Handle group = io.group(at);
  if (!task.family.empty()) io.attribute(group.get(), "family", task.family);
  if (!task.source.empty()) io.attribute(group.get(), "source", task.source);
  if (task.nominal_length > 0) io.attribute(group.get(), "nominal_length", task.nominal_length);
  if (task.full_coverage) io.attribute(group.get(), "key_coverage", std::string("full"));
  io.query = io.vectors("query", task.query_type, task.query_heads, task.query_slots);
  io.key = io.vectors("key", task.key_type, task.kv_heads, task.key_slots);
  const auto integers = [&](const char* name, const std::vector<std::int64_t>& shape) {
    return io.dataset(at + "/" + name, H5T_STD_I32LE, sizes(shape), nullptr);
  };
  io.query_position = integers("query_position", {task.examples, task.query_slots});
  io.key_position = integers("key_position", {task.examples, task.key_slots});
  io.window = integers("window", {task.examples});
  io.triplets = task.triplet_slots > 0 ? integers("triplet_key_pair", {task.examples, task.triplet_slots, 2})
                                       : Handle();
  io.example_id = Handle();
  if (task.has_example_id) {
    const Handle type = text_type(storage.fixed_id_bytes > 0 ? storage.fixed_id_bytes : H5T_VARIABLE);
    io.example_id = io.dataset(at + "/example_id", type.get(), sizes({task.examples}), nullptr);
  }
  bool identity = true;
  for (std::size_t i = 0; i < task.layers.size(); ++i) identity &= task.layers[i] == static_cast<int>(i);
  if (identity) return;
  const Handle layer = integers("layer", {static_cast<std::int64_t>(task.layers.size())});
  if (H5Dwrite(layer.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, task.layers.data()) < 0)
    io.fail(at + "/layer");
}

void CacheWriter::put_example(std::int64_t example, const std::string& id, std::int64_t window,
                              const ExampleSlots& slots, std::span<const double> query,
                              std::span<const double> key) {
  silence_hdf5();
  const Impl& io = *impl_;
  const TaskHeader& task = io.task;
  if (std::ssize(slots.query_position) != task.query_slots ||
      std::ssize(slots.key_position) != task.key_slots ||
      std::ssize(slots.triplets) != 2 * task.triplet_slots)
    throw std::logic_error("slot count");
  io.put_vectors(io.query.get(), task.query_type, example, task.query_heads, task.query_slots, query);
  io.put_vectors(io.key.get(), task.key_type, example, task.kv_heads, task.key_slots, key);
  const auto put = [&](const Handle& set, const std::vector<std::int64_t>& shape, const void* data) {
    io.put_row(set.get(), example, sizes(shape), H5T_NATIVE_INT64, data);
  };
  put(io.query_position, {task.query_slots}, slots.query_position.data());
  put(io.key_position, {task.key_slots}, slots.key_position.data());
  put(io.window, {}, &window);
  if (io.triplets.valid()) put(io.triplets, {task.triplet_slots, 2}, slots.triplets.data());
  if (!io.example_id.valid()) return;
  if (io.storage.fixed_id_bytes == 0) {
    const Handle type = text_type(H5T_VARIABLE);
    const char* text = id.c_str();
    io.put_row(io.example_id.get(), example, {}, type.get(), &text);
    return;
  }
  if (id.size() > io.storage.fixed_id_bytes) throw std::logic_error("id too long");
  std::string padded = id;
  padded.resize(io.storage.fixed_id_bytes, '\0');
  io.put_row(io.example_id.get(), example, {}, text_type(padded.size()).get(), padded.data());
}

void CacheWriter::close() {
  Impl& io = *impl_;
  for (Handle* handle :
       {&io.query, &io.key, &io.query_position, &io.key_position, &io.window, &io.example_id, &io.triplets})
    if (!handle->close()) io.fail("/tasks/" + io.task.name);
  if (!io.file.close()) io.fail("the file");
}

}  // namespace rope
