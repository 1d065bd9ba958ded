#include "profiler/activation_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "profiler/element_convert.hpp"
#include "profiler/error.hpp"
#include "support/cache_writer.hpp"
#include "support/hdf5_edit.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("profiler");

namespace {

using namespace rope;
using test::CacheSpec;
using test::TaskSpec;

/// What `value` becomes when it is stored as `type` and read again, by way of the one-element functions.
double stored(ElementType type, double value) {
  std::byte bytes[8];
  store_elements(type, &value, 1, bytes);
  double out = 0;
  convert_elements(type, bytes, 1, &out);
  return out;
}

std::vector<double> values_of(const RawBlock& block) {
  std::vector<double> values(static_cast<std::size_t>(block.heads * block.tokens * block.head_dim));
  convert_elements(block.type, block.bytes.data(), values.size(), values.data());
  return values;
}

/// Reads every block of a `pre`, half-layout file and counts values that differ from the spec's.
std::size_t differences(const ActivationFile& file, const CacheSpec& cache, int heads_at_once) {
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < cache.tasks.size(); ++t) {
    const TaskSpec& spec = cache.tasks[t];
    const TaskHeader& task = file.tasks()[t];
    for (const auto side : {ActivationFile::Side::kQuery, ActivationFile::Side::kKey}) {
      const bool query = side == ActivationFile::Side::kQuery;
      const auto& expected = query ? spec.query : spec.key;
      const int heads = query ? task.query_heads : task.kv_heads;
      std::size_t at = 0;
      RawBlock block;
      for (std::int64_t e = 0; e < task.examples; ++e)
        for (int l = 0; l < static_cast<int>(task.layers.size()); ++l)
          for (int h = 0; h < heads; h += heads_at_once) {
            file.read_block(task, side, e, l, h, std::min(heads_at_once, heads - h), block);
            for (const double value : values_of(block))
              if (!(value == stored(block.type, expected[at++]))) ++wrong;
          }
      REQUIRE(at == expected.size());
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("every element type and storage reads back what was written") {
  const test::TempDir dir;
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32, ElementType::kFloat64})
    for (int form = 0; form < 11; ++form) {
      test::RandomCache sizes;
      sizes.type = type;
      CacheSpec cache = test::random_cache(sizes);
      for (TaskSpec& task : cache.tasks) {
        CacheStorage& storage = task.storage;
        if (form >= 2) storage.chunk = {1, 0, 0, 0, 0};
        if (form == 1 || form == 5) storage.big_endian = true;
        if (form == 3) storage.gzip = 4;
        if (form == 4) storage.lzf = storage.shuffle = true;
        if (form == 5) storage.gzip = 1, storage.shuffle = storage.fletcher32 = true;
        if (form == 6) storage.chunk = {2, 1, 3, 1, 5}, storage.bfloat16_bits = true;
        if (form == 7) storage.chunk = {1, 1, 1, 0, 0}, storage.lzf = true, storage.fixed_id_bytes = 9;
        if (form == 8) storage.chunk = {2, 1, 3, 1, 5}, storage.gzip = 1, storage.shuffle = true;
        if (form == 9) storage.chunk = {0, 0, 0, 0, 0}, storage.lzf = storage.fletcher32 = true;
        if (form == 10) storage.chunk = {2, 2, 3, 4, 7}, storage.gzip = 1, storage.big_endian = true;
      }
      const std::string path = dir / "cache.h5";
      test::write_cache(path, cache);
      CAPTURE(element_name(type));
      CAPTURE(form);
      ActivationFile file(path);
      REQUIRE(file.tasks().size() == 2);
      CHECK(file.tasks()[0].query_type == type);
      CHECK(file.tasks()[0].key_type == type);
      CHECK(differences(file, cache, 1) == 0);
      CHECK(differences(file, cache, 3) == 0);
      file.keep_chunks(1);
      CHECK(differences(file, cache, 2) == 0);
      CHECK(file.read_example_ids(file.tasks()[1], 1, 2) == std::vector<std::string>{"beta-1", "beta-2"});
      for (const CheckResult& check : ActivationFile::check(path)) {
        INFO(check.name << ": " << check.detail);
        CHECK(check.passed);
      }
    }
}

TEST_CASE("headers, windows, positions and triplets of a cache") {
  const test::TempDir dir;
  test::RandomCache sizes;
  sizes.num_layers = 6;
  sizes.layers = {1, 4};
  CacheSpec cache = test::random_cache(sizes);
  cache.model.layout = spectral::PairLayout::kInterleaved;
  cache.model.key_rotation = Rotation::kPost;
  cache.model.reversed = true;
  cache.model.attention_scale = 0.25;
  cache.model.inv_freq_shape = {8};
  cache.model.inv_freq = cache.omega[0];
  cache.model.sink_logit.assign(24, 0.5);
  TaskSpec& task = cache.tasks[0];
  task.header.source = "a benchmark";
  task.header.nominal_length = 4096;
  task.header.triplet_slots = 2;
  task.triplets = {0, 1, 5, 2, 0, 1, -1, -1, 3, 4, 2, -1};
  task.query_position[1] = -1;
  task.key_position[3] = -1;
  const std::string path = dir / "cache.h5";
  test::write_cache(path, cache);
  const ActivationFile file(path);
  const ModelHeader& model = file.model();
  CHECK(model.name == "random test model");
  CHECK(model.num_layers == 6);
  CHECK(model.num_query_heads == 4);
  CHECK(model.num_kv_heads == 2);
  CHECK(model.head_dim == 16);
  CHECK(model.layout == spectral::PairLayout::kInterleaved);
  CHECK(model.query_rotation == Rotation::kPre);
  CHECK(model.key_rotation == Rotation::kPost);
  CHECK(model.reversed);
  CHECK(model.config == cache.model.config);
  CHECK(model.attention_scale == 0.25);
  CHECK(model.inv_freq_shape == std::vector<std::int64_t>{8});
  CHECK(model.inv_freq == cache.omega[0]);
  CHECK(model.sink_logit == std::vector<double>(24, 0.5));
  CHECK(file.created_by() == "rope tests");
  const TaskHeader& header = file.tasks()[0];
  CHECK(header.name == "alpha");
  CHECK(header.family == "random");
  CHECK(header.source == "a benchmark");
  CHECK(header.nominal_length == 4096);
  CHECK(header.layers == std::vector<int>{1, 4});
  CHECK(header.triplet_slots == 2);
  CHECK(file.tasks()[1].triplet_slots == 0);
  CHECK(file.read_windows(header, 0, 3) == std::vector<std::int64_t>{200, 210, 220});
  const ExampleSlots slots = file.read_slots(header, 0, 200, true);
  CHECK(slots.query_position == std::vector<std::int64_t>{198, -1});
  CHECK(slots.key_position[3] == -1);
  CHECK(slots.triplets == std::vector<std::int64_t>{0, 1, 5, 2});
  CHECK(file.read_slots(header, 1, 210, true).triplets == std::vector<std::int64_t>{0, 1, -1, -1});
  CHECK_NOTHROW(file.read_slots(header, 0, 10, false));  // --window
  CHECK_THROWS_AS(file.read_slots(header, 0, 10, true), UserError);
}

TEST_CASE("layouts and rotations are written as the test support promises") {
  // Not a check of the reader: other tests lean on this.
  const test::TempDir dir;
  CacheSpec cache = test::random_cache();
  cache.model.layout = spectral::PairLayout::kInterleaved;
  cache.model.key_rotation = Rotation::kPost;
  cache.tasks[0].header.key_type = ElementType::kFloat64;
  test::write_cache(dir / "a.h5", cache);
  const ActivationFile file(dir / "a.h5");
  RawBlock block;
  file.read_block(file.tasks()[0], ActivationFile::Side::kKey, 1, 0, 1, 1, block);
  const std::vector<double> values = values_of(block);
  const TaskSpec& task = cache.tasks[0];
  const std::size_t row = (1 * 2 * 2 + 0 * 2 + 1) * 6 + 4;  // example 1, layer 0, head 1, slot 4
  const double p = static_cast<double>(task.key_position[6 + 4]);
  for (std::size_t n = 0; n < 8; ++n) {
    const double re = task.key[row * 16 + n], im = task.key[row * 16 + n + 8], w = cache.omega[0][n];
    CHECK(values[64 + 2 * n] == doctest::Approx(re * std::cos(p * w) - im * std::sin(p * w)));
    CHECK(values[65 + 2 * n] == doctest::Approx(re * std::sin(p * w) + im * std::cos(p * w)));
  }
}

TEST_CASE("attributes in the forms of other writers") {
  const test::TempDir dir;
  const std::string path = dir / "cache.h5";
  test::write_cache(path, test::random_cache());
  {
    test::Hdf5Edit edit(path);
    edit.fixed_text("/", "format", "rope-profiler/activations", 25);  // no end but the space's own
    edit.number("/", "format_version", 1, H5T_IEEE_F32LE, {1});
    edit.fixed_text("/model", "rope_layout", "half", 12, H5T_STR_SPACEPAD);
    edit.fixed_text("/model", "query_rotation", "pre", 8, H5T_STR_NULLTERM, true);
    edit.number("/model", "num_layers", 2, H5T_STD_U8BE);
    edit.number("/model", "head_dim", 16, H5T_STD_I16BE, {1, 1});
    edit.number("/model", "num_kv_heads", 2, H5T_IEEE_F64LE);
    edit.number("/model", "attention_scale", 1, H5T_STD_I32LE);
    edit.integers("/tasks/alpha/window", {3}, {200, 210, 220}, H5T_STD_U16BE);
    edit.integers("/tasks/alpha/layer", {2}, {0, 1}, H5T_STD_I8LE);
    edit.unlink("/tasks/alpha/example_id");
    edit.group("/tasks/alpha/notes");  // unknown names are left alone
    edit.soft_link("key_position", "/tasks/alpha/positions");
    edit.hard_link("/tasks/alpha/key", "/tasks/alpha/key_again");
  }
  const ActivationFile file(path);
  CHECK(file.model().num_layers == 2);
  CHECK(file.model().head_dim == 16);
  CHECK(file.model().attention_scale == 1.0);
  CHECK(file.read_windows(file.tasks()[0], 0, 3) == std::vector<std::int64_t>{200, 210, 220});
  CHECK(file.read_example_ids(file.tasks()[0], 0, 3) == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("a soft link to a neighbour in the same group is followed") {
  const test::TempDir dir;
  const std::string path = dir / "cache.h5";
  CacheSpec cache = test::random_cache();
  test::write_cache(path, cache);
  {
    test::Hdf5Edit edit(path);
    edit.hard_link("/tasks/alpha/query", "/tasks/alpha/stored");
    edit.unlink("/tasks/alpha/query");
    edit.soft_link("stored", "/tasks/alpha/query");
  }
  CHECK(differences(ActivationFile(path), cache, 4) == 0);
}

TEST_CASE("a user block shifts every offset and nothing else") {
  const test::TempDir dir;
  const CacheSpec cache = test::random_cache();
  test::write_cache(dir / "plain.h5", cache);
  std::ifstream in(dir / "plain.h5", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::ofstream(dir / "shifted.h5", std::ios::binary) << std::string(512, 'x') << bytes;
  CHECK(differences(ActivationFile(dir / "shifted.h5"), cache, 4) == 0);
}

TEST_CASE("vectors that were never written read as zeros") {
  const test::TempDir dir;
  const std::string path = dir / "cache.h5";
  test::write_cache(path, test::random_cache());
  {
    test::Hdf5Edit edit(path);
    edit.dataset("/tasks/alpha/query", H5T_IEEE_F32LE, {3, 2, 4, 2, 16});
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[5] = {1, 2, 4, 2, 16};
    H5Pset_chunk(plist, 5, chunk);
    H5Pset_deflate(plist, 1);
    edit.dataset("/tasks/beta/query", H5T_IEEE_F32LE, {3, 2, 4, 2, 16}, plist);
    H5Pclose(plist);
  }
  const ActivationFile file(path);
  for (const TaskHeader& task : file.tasks()) {
    RawBlock block;
    block.bytes.assign(4096, std::byte{7});
    file.read_block(task, ActivationFile::Side::kQuery, 2, 1, 0, 4, block);
    CHECK(values_of(block) == std::vector<double>(128, 0.0));
  }
}

TEST_CASE("full key coverage") {
  const test::TempDir dir;
  CacheSpec cache = test::random_cache();
  cache.tasks.resize(1);
  TaskSpec& task = cache.tasks[0];
  task.header.full_coverage = true;
  const auto put = [&](std::size_t e, std::vector<std::int64_t> queries, std::vector<std::int64_t> keys) {
    std::copy(queries.begin(), queries.end(),
              task.query_position.begin() + 2 * static_cast<std::ptrdiff_t>(e));
    std::copy(keys.begin(), keys.end(), task.key_position.begin() + 6 * static_cast<std::ptrdiff_t>(e));
  };
  put(0, {2, 4}, {0, 1, 2, 3, 4, 5});
  put(1, {-1, 3}, {-1, -1, 0, 1, 2, 3});  // left padding
  put(2, {1, -1}, {0, 1, -1, -1, -1, -1});
  test::write_cache(dir / "good.h5", cache);
  const ActivationFile good(dir / "good.h5");
  for (std::int64_t e = 0; e < 3; ++e) CHECK_NOTHROW(good.read_slots(good.tasks()[0], e, 200, true));
  put(0, {2, 4}, {0, 1, 3, 4, 5, -1});
  put(1, {-1, 3}, {-1, -1, 1, 0, 2, 3});
  put(2, {4, -1}, {0, 1, 2, 3, -1, -1});
  test::write_cache(dir / "bad.h5", cache);
  const ActivationFile bad(dir / "bad.h5");
  for (std::int64_t e = 0; e < 3; ++e)
    CHECK_THROWS_AS(bad.read_slots(bad.tasks()[0], e, 200, true), UserError);
}

TEST_CASE("a cache written by h5py with LZF and shuffle reads as its formula") {
  // tests/data/caches/README.md holds the script.
  const ActivationFile file(ROPE_SOURCE_DIR "/tests/data/caches/h5py_lzf.h5");
  REQUIRE(file.tasks().size() == 1);
  const TaskHeader& task = file.tasks()[0];
  CHECK(task.name == "counting");
  CHECK(file.read_example_ids(task, 0, 2) == std::vector<std::string>{"first", "zweite \xc3\x9f"});
  std::size_t wrong = 0, at = 0;
  RawBlock block;
  for (std::int64_t e = 0; e < task.examples; ++e)
    for (int l = 0; l < 2; ++l) {
      file.read_block(task, ActivationFile::Side::kKey, e, l, 0, task.kv_heads, block);
      for (const double value : values_of(block))
        if (!(value == static_cast<double>(at++ % 37) / 8 - 2)) ++wrong;
    }
  CHECK(at == static_cast<std::size_t>(task.examples * 2 * task.kv_heads * task.key_slots * task.head_dim));
  CHECK(wrong == 0);
}

TEST_CASE("the real caches open and check, where they are at hand") {
  const std::string shared = rope::test::shared_folder();
  for (const char* name : {"smollm2.h5", "smollm2_full.h5", "gemma3.h5"}) {
    const std::string path = shared + "/data/" + name;
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(path);
    for (const CheckResult& check : ActivationFile::check(path)) {
      INFO(check.name << ": " << check.detail);
      CHECK(check.passed);
    }
    const ActivationFile file(path);
    CHECK(file.model().config.has_value());
    CHECK(file.tasks().size() >= 2);
  }
}

TEST_SUITE_END();
