#include "interventions/tensor_file.hpp"

#include <zip.h>

#include <bit>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

void append_little(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_values(std::string& bytes, const std::vector<float>& values) {
  for (const float value : values) append_little(bytes, std::bit_cast<std::uint32_t>(value), 4);
}

Json metadata_json(const TensorMetadata& metadata) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata) json[key] = value;
  return json;
}

std::string ascii(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

/// A .npy of format 1.0: header padded so that the data starts at a multiple of 64.
std::string npy_bytes(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  constexpr std::size_t kFixed = 10;
  header.append(63 - (kFixed + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  append_little(bytes, header.size(), 2);
  return bytes + header + data;
}

std::string npy_of(const NamedTensor& tensor) {
  std::string shape = "(";
  for (const std::int64_t n : tensor.shape) shape += std::to_string(n) + ",";
  std::string data;
  append_values(data, tensor.values);
  return npy_bytes("<f4", shape + ")", data);
}

std::string npy_of(const std::string& ascii_text) {
  std::string data;
  for (const char c : ascii_text) append_little(data, static_cast<unsigned char>(c), 4);
  return npy_bytes("<U" + std::to_string(ascii_text.size()), "()", data);
}

/// A zip archive that is built in memory.
class ZipBuffer {
 public:
  ZipBuffer() : source_(zip_source_buffer_create(nullptr, 0, 0, nullptr)) {
    require(source_ != nullptr);
    archive_ = zip_open_from_source(source_, ZIP_TRUNCATE, nullptr);
    require(archive_ != nullptr);
    zip_source_keep(source_);  // the archive gives up its own hold when it closes
  }
  ~ZipBuffer() {
    if (archive_ != nullptr) zip_discard(archive_);
    if (source_ != nullptr) zip_source_free(source_);
  }
  ZipBuffer(const ZipBuffer&) = delete;
  ZipBuffer& operator=(const ZipBuffer&) = delete;

  void add(const std::string& name, std::string bytes) {
    held_.push_back(std::make_unique<std::string>(std::move(bytes)));
    zip_source_t* entry = zip_source_buffer(archive_, held_.back()->data(), held_.back()->size(), 0);
    require(entry != nullptr);
    const zip_int64_t index = zip_file_add(archive_, name.c_str(), entry, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(entry);
    require(index >= 0);
    const auto at = static_cast<zip_uint64_t>(index);
    require(zip_set_file_compression(archive_, at, ZIP_CM_STORE, 0) == 0);
    constexpr zip_uint16_t kMidnight = 0, kFirstDay = 1 << 5 | 1;  // 1980-01-01, whatever the time zone
    require(zip_file_set_dostime(archive_, at, kMidnight, kFirstDay, 0) == 0);
  }

  std::string finish() {
    require(zip_close(archive_) == 0);
    archive_ = nullptr;
    zip_stat_t facts;
    require(zip_source_stat(source_, &facts) == 0 && zip_source_open(source_) == 0);
    std::string bytes(facts.size, '\0');
    const zip_int64_t got = zip_source_read(source_, bytes.data(), bytes.size());
    zip_source_close(source_);
    require(got >= 0 && static_cast<std::size_t>(got) == bytes.size());
    return bytes;
  }

 private:
  static void require(bool done) {
    if (!done) throw std::runtime_error("npz: the zip library failed");
  }

  zip_source_t* source_ = nullptr;
  zip_t* archive_ = nullptr;
  std::vector<std::unique_ptr<std::string>> held_;  // read when the archive closes
};

}  // namespace

std::string safetensors_bytes(const std::vector<NamedTensor>& tensors, const TensorMetadata& metadata) {
  Json header = {{"__metadata__", metadata_json(metadata)}};
  std::string data;
  for (const NamedTensor& tensor : tensors) {
    const std::size_t start = data.size();
    append_values(data, tensor.values);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {start, data.size()}}};
  }
  std::string text = ascii(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // data aligned to its start
  std::string bytes;
  append_little(bytes, text.size(), 8);
  return bytes + text + data;
}

std::string npz_bytes(const std::vector<NamedTensor>& tensors, const TensorMetadata& metadata) {
  ZipBuffer zip;
  for (const NamedTensor& tensor : tensors) zip.add(tensor.name + ".npy", npy_of(tensor));
  zip.add("metadata.npy", npy_of(ascii(metadata_json(metadata))));
  return zip.finish();
}

}  // namespace rope
