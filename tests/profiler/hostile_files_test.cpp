// Files that break the format, by mistake or on purpose: each is refused with one line that names the file,
// the place, what was expected and what was found; none crashes, hangs or passes silently.
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>

#include "profiler/activation_file.hpp"
#include "profiler/error.hpp"
#include "support/cache_writer.hpp"
#include "support/hdf5_edit.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("profiler");

namespace {

using namespace rope;
using test::Hdf5Edit;

/// Opens a cache and reads everything in it.
void read_everything(const std::string& path) {
  const ActivationFile file(path);
  RawBlock block;
  for (const TaskHeader& task : file.tasks()) {
    const std::vector<std::int64_t> windows = file.read_windows(task, 0, task.examples);
    file.read_example_ids(task, 0, task.examples);
    for (std::int64_t e = 0; e < task.examples; ++e) {
      file.read_slots(task, e, windows[static_cast<std::size_t>(e)], true);
      for (int l = 0; l < static_cast<int>(task.layers.size()); ++l) {
        file.read_block(task, ActivationFile::Side::kQuery, e, l, 0, task.query_heads, block);
        file.read_block(task, ActivationFile::Side::kKey, e, l, 0, task.kv_heads, block);
      }
    }
  }
}

/// The message of the UserError that reading ends with; empty when it ends well.
std::string refusal(const std::string& path) {
  try {
    read_everything(path);
  } catch (const UserError& error) {
    CHECK(error.code() == ExitCode::kInput);
    return error.what();
  }
  return {};
}

std::size_t failed_checks(const std::string& path) {
  const auto checks = ActivationFile::check(path);
  return static_cast<std::size_t>(
      std::count_if(checks.begin(), checks.end(), [](const CheckResult& c) { return !c.passed; }));
}

struct Hostile {
  const char* name;
  std::function<void(Hdf5Edit&)> edit;
  std::vector<std::string> says;  ///< pieces of the message, in any order
  bool check_sees = true;         ///< `inspect` lists it (vectors are not read by the checks)
};

hid_t chunked(const std::vector<hsize_t>& chunk) {
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plist, static_cast<int>(chunk.size()), chunk.data());
  return plist;
}

const char* const kQuery = "/tasks/alpha/query";

void huge_query(Hdf5Edit& edit, const std::vector<hsize_t>& shape) {
  const hid_t plist = chunked({1, 1, 1, 1, 16});
  edit.dataset(kQuery, H5T_IEEE_F32LE, shape, plist);
  H5Pclose(plist);
}

/// A dataset whose first chunk is a valid stream, short enough for it, that inflates to 100 times a chunk.
std::function<void(Hdf5Edit&)> bomb(const std::string& path, std::vector<hsize_t> shape,
                                    std::vector<hsize_t> chunk) {
  return [=](Hdf5Edit& e) {
    const hid_t plist = chunked(chunk);
    H5Pset_deflate(plist, 6);
    e.dataset(path, path == kQuery ? H5T_IEEE_F32LE : H5T_STD_I32LE, shape, plist);
    const std::vector<Bytef> zeros(100000);
    std::vector<Bytef> stream(compressBound(zeros.size()));
    uLongf size = stream.size();
    REQUIRE(compress2(stream.data(), &size, zeros.data(), zeros.size(), 9) == Z_OK);
    REQUIRE(size < 600);
    const std::vector<hsize_t> origin(shape.size(), 0);
    const hid_t set = H5Dopen2(e.file(), path.c_str(), H5P_DEFAULT);
    REQUIRE(H5Dwrite_chunk(set, H5P_DEFAULT, 0, origin.data(), size, stream.data()) >= 0);
    H5Dclose(set);
    H5Pclose(plist);
  };
}

std::vector<Hostile> hostile_attributes() {
  const auto with = [](auto edit) { return std::function<void(Hdf5Edit&)>(edit); };
  return {
      {"no format", with([](Hdf5Edit& e) { e.drop_attribute("/", "format"); }), {"format", "nothing"}},
      {"other format",
       with([](Hdf5Edit& e) { e.text("/", "format", "rope-profiler/profile"); }),
       {"\"rope-profiler/activations\"", "\"rope-profiler/profile\""}},
      {"newer version",
       with([](Hdf5Edit& e) { e.number("/", "format_version", 2, H5T_STD_I32LE); }),
       {"format_version", "expected 1", "found 2"}},
      {"version and a half",
       with([](Hdf5Edit& e) { e.number("/", "format_version", 1.5, H5T_IEEE_F64LE); }),
       {"an integer", "1.5"}},
      {"no model", with([](Hdf5Edit& e) { e.unlink("/model"); }), {"/model", "nothing"}},
      {"no tasks", with([](Hdf5Edit& e) { e.unlink("/tasks"); }), {"/tasks", "nothing"}},
      {"empty tasks",
       with([](Hdf5Edit& e) {
         e.unlink("/tasks");
         e.group("/tasks");
       }),
       {"/tasks", "at least one task"}},
      {"model is a dataset",
       with([](Hdf5Edit& e) {
         e.unlink("/model");
         e.integers("/model", {1}, {1});
       }),
       {"/model", "a group", "dataset"}},
      {"no layout",
       with([](Hdf5Edit& e) { e.drop_attribute("/model", "rope_layout"); }),
       {"rope_layout", "\"half\" or \"interleaved\"", "nothing"}},
      {"odd layout", with([](Hdf5Edit& e) { e.text("/model", "rope_layout", "halves"); }), {"\"halves\""}},
      {"odd rotation", with([](Hdf5Edit& e) { e.text("/model", "key_rotation", "Pre"); }), {"\"Pre\""}},
      {"odd direction", with([](Hdf5Edit& e) { e.text("/model", "rope_direction", "back"); }), {"\"back\""}},
      {"no name", with([](Hdf5Edit& e) { e.drop_attribute("/model", "name"); }), {"name", "nothing"}},
      {"control characters in the name",
       with([](Hdf5Edit& e) { e.text("/model", "name", "a\x1b[31mb"); }),
       {"\"a\\x1b[31mb\""}},
      {"name of bytes", with([](Hdf5Edit& e) { e.text("/model", "name", "\xff\xfe"); }), {"\\xff\\xfe"}},
      {"number as name",
       with([](Hdf5Edit& e) { e.number("/model", "name", 3, H5T_STD_I32LE); }),
       {"name", "text", "32-bit integer"}},
      {"text as number",
       with([](Hdf5Edit& e) { e.text("/model", "num_layers", "2"); }),
       {"num_layers", "a number", "text"}},
      {"two numbers",
       with([](Hdf5Edit& e) { e.number("/model", "head_dim", 16, H5T_STD_I32LE, {2}); }),
       {"head_dim", "one value", "found 2"}},
      {"negative head_dim",
       with([](Hdf5Edit& e) { e.number("/model", "head_dim", -16, H5T_STD_I32LE); }),
       {"head_dim", "-16"}},
      {"absurd num_layers",
       with([](Hdf5Edit& e) { e.number("/model", "num_layers", 4e9, H5T_STD_I64LE); }),
       {"num_layers", "from 1 to 65536", "4000000000"}},
      {"zero heads",
       with([](Hdf5Edit& e) { e.number("/model", "num_kv_heads", 0, H5T_STD_I32LE); }),
       {"num_kv_heads", "found 0"}},
      {"NaN as count",
       with([](Hdf5Edit& e) {
         e.number("/model", "num_kv_heads", std::numeric_limits<double>::quiet_NaN(), H5T_IEEE_F64LE);
       }),
       {"num_kv_heads", "an integer", "nan"}},
      {"heads that do not divide",
       with([](Hdf5Edit& e) { e.number("/model", "num_kv_heads", 3, H5T_STD_I32LE); }),
       {"multiple of num_kv_heads", "4 and 3"}},
      {"attention_scale 0",
       with([](Hdf5Edit& e) { e.number("/model", "attention_scale", 0, H5T_IEEE_F64LE); }),
       {"attention_scale", "a positive number"}},
      {"compound attribute",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tcreate(H5T_COMPOUND, 4);
         H5Tinsert(type, "x", 0, H5T_STD_I32LE);
         const std::int32_t value = 2;
         e.raw_attribute("/model", "num_layers", type, {}, &value);
         H5Tclose(type);
       }),
       {"num_layers", "a number", "a compound type"}},
      {"reference attribute",
       with([](Hdf5Edit& e) {
         hobj_ref_t value{};
         H5Rcreate(&value, e.file(), "/model", H5R_OBJECT, -1);
         e.raw_attribute("/model", "config", H5T_STD_REF_OBJ, {}, &value);
       }),
       {"config", "text", "a reference"}},
      {"opaque attribute",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tcreate(H5T_OPAQUE, 4);
         e.raw_attribute("/model", "name", type, {}, "abcd");
         H5Tclose(type);
       }),
       {"name", "an opaque type"}},
      {"sequence of characters instead of text",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tvlen_create(H5T_STD_I8LE);
         char letters[] = {'p', 'r', 'e'};
         const hvl_t value{3, letters};
         e.raw_attribute("/model", "query_rotation", type, {}, &value);
         H5Tclose(type);
       }),
       {"query_rotation", "a variable-length sequence"}},
      {"boolean attribute",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tenum_create(H5T_STD_I8LE);
         const std::int8_t no = 0, yes = 1;
         H5Tenum_insert(type, "FALSE", &no);
         H5Tenum_insert(type, "TRUE", &yes);
         e.raw_attribute("/model", "num_layers", type, {}, &yes);
         H5Tclose(type);
       }),
       {"num_layers", "an enumeration"}},
      {"odd coverage",
       with([](Hdf5Edit& e) { e.text("/tasks/alpha", "key_coverage", "all"); }),
       {"/tasks/alpha", "\"sampled\" or \"full\"", "\"all\""}},
      {"negative nominal length",
       with([](Hdf5Edit& e) { e.number("/tasks/alpha", "nominal_length", -1, H5T_STD_I32LE); }),
       {"nominal_length", "-1"}},
      {"inv_freq of integers",
       with([](Hdf5Edit& e) {
         e.integers("/model/inv_freq", {2}, {1, 1});
       }),
       {"/model/inv_freq", "a float type", "32-bit integer"}},
      {"inv_freq too wide",
       with([](Hdf5Edit& e) { e.dataset("/model/inv_freq", H5T_IEEE_F32LE, {9}); }),
       {"/model/inv_freq", "h <= 8", "[9]"}},
      {"inv_freq of other layers",
       with([](Hdf5Edit& e) {
         e.dataset("/model/inv_freq", H5T_IEEE_F32LE, {3, 8});
       }),
       {"/model/inv_freq", "[2, h]", "[3, 8]"}},
      {"sink_logit of another shape",
       with([](Hdf5Edit& e) { e.dataset("/model/sink_logit", H5T_IEEE_F32LE, {4}); }),
       {"/model/sink_logit", "[2, 4]", "[4]"}},
  };
}

std::vector<Hostile> hostile_datasets() {
  const auto with = [](auto edit) { return std::function<void(Hdf5Edit&)>(edit); };
  return {
      {"no query",
       with([](Hdf5Edit& e) { e.unlink(kQuery); }),
       {kQuery, "the dataset [E, L, Hq, Nq, D] of query vectors", "nothing"}},
      {"no window",
       with([](Hdf5Edit& e) { e.unlink("/tasks/alpha/window"); }),
       {"/tasks/alpha/window: expected the dataset [E] of input lengths in tokens, found nothing"}},
      {"query is a group",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         e.group(kQuery);
       }),
       {kQuery, "a dataset", "a group"}},
      {"task is a dataset",
       with([](Hdf5Edit& e) { e.integers("/tasks/gamma", {1}, {1}); }),
       {"/tasks/gamma", "a group"}},
      {"plain integers",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_STD_U16LE, {3, 2, 4, 2, 16});
       }),
       {kQuery, "float16, bfloat16, float32 or float64", "16-bit unsigned integer"}},
      {"integers said to be float16",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_STD_U16LE, {3, 2, 4, 2, 16});
         e.text(kQuery, "dtype", "float16");
       }),
       {kQuery, "dtype = \"float16\""}},
      {"float16 said to be bfloat16",
       with([](Hdf5Edit& e) { e.text(kQuery, "dtype", "bfloat16"); }),
       {kQuery, "one element type"}},
      {"odd float",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
         H5Tset_fields(type, 15, 9, 6, 0, 9);
         H5Tset_precision(type, 16);
         H5Tset_size(type, 2);
         H5Tset_ebias(type, 31);
         e.dataset(kQuery, type, {3, 2, 4, 2, 16});
         H5Tclose(type);
       }),
       {kQuery, "6 exponent and 9 mantissa bits"}},
      {"complex numbers",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tcreate(H5T_COMPOUND, 8);
         H5Tinsert(type, "r", 0, H5T_IEEE_F32LE);
         H5Tinsert(type, "i", 4, H5T_IEEE_F32LE);
         e.dataset(kQuery, type, {3, 2, 4, 2, 16});
         H5Tclose(type);
       }),
       {kQuery, "a compound type"}},
      {"text as vectors",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_C_S1, {3, 2, 4, 2, 16});
       }),
       {kQuery, "found text"}},
      {"four axes",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 4, 16});
       }),
       {kQuery, "five axes [E, L, Hq, Nq, D]", "[3, 2, 4, 16]"}},
      {"a scalar", with([](Hdf5Edit& e) { e.dataset(kQuery, H5T_IEEE_F32LE, {}); }), {kQuery, "[]"}},
      {"null dataspace",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         const hid_t space = H5Screate(H5S_NULL);
         H5Dclose(H5Dcreate2(e.file(), kQuery, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         H5Sclose(space);
       }),
       {kQuery, "null dataspace"}},
      {"no examples",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_IEEE_F32LE, {0, 2, 4, 2, 16});
       }),
       {kQuery, "no axis of size 0"}},
      {"other head count",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 8, 2, 16});
       }),
       {kQuery, "4 heads", "[3, 2, 8, 2, 16]"}},
      {"other width",
       with([](Hdf5Edit& e) {
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 4, 2, 8});
       }),
       {kQuery, "16 lanes"}},
      {"key of other examples",
       with([](Hdf5Edit& e) {
         e.dataset("/tasks/alpha/key", H5T_IEEE_F32LE, {4, 2, 2, 6, 16});
       }),
       {"/tasks/alpha/key", "of query", "[4, 2, 2, 6, 16]"}},
      {"positions of another shape",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/query_position", {3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
       }),
       {"query_position", "[E, Nq] = [3, 2]", "[3, 3]"}},
      {"float positions",
       with([](Hdf5Edit& e) {
         e.dataset("/tasks/alpha/key_position", H5T_IEEE_F64LE, {3, 6});
       }),
       {"key_position", "an integer type", "64-bit float"}},
      {"integers with gaps",
       with([](Hdf5Edit& e) {
         const hid_t type = H5Tcopy(H5T_STD_I32LE);
         H5Tset_precision(type, 12);
         H5Tset_offset(type, 4);
         e.dataset("/tasks/alpha/window", type, {3});
         H5Tclose(type);
       }),
       {"window", "an integer type"}},
      {"window as a column",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/window", {3, 1}, {9, 9, 9});
       }),
       {"window", "[3, 1]"}},
      {"ids as numbers",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/example_id", {3}, {1, 2, 3});
       }),
       {"example_id", "text", "32-bit integer"}},
      {"layers that fall",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/layer", {2}, {1, 0});
       }),
       {"/tasks/alpha/layer", "rising", "0 after 1"}},
      {"layer twice",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/layer", {2}, {1, 1});
       }),
       {"1 after 1"}},
      {"layer -1",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/layer", {2}, {-1, 1});
       }),
       {"found -1"}},
      {"layer out of range",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/layer", {2}, {0, 2});
       }),
       {"below num_layers = 2", "found 2"}},
      {"more layers than the model",
       with([](Hdf5Edit& e) { e.number("/model", "num_layers", 1, H5T_STD_I32LE); }),
       {"below num_layers = 1"}},
      {"triplets of three",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/triplet_key_pair", {3, 1, 3}, std::vector<std::int64_t>(9));
       }),
       {"triplet_key_pair", "[3, T, 2]", "[3, 1, 3]"}},
  };
}

std::vector<Hostile> hostile_storage() {
  const auto with = [](auto edit) { return std::function<void(Hdf5Edit&)>(edit); };
  return {
      {"external link to a task",
       with([](Hdf5Edit& e) { e.external_link("/etc/passwd", "/tasks/beta", "/tasks/gamma"); }),
       {"/tasks/gamma", "an external link"}},
      {"external link to a dataset",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         e.external_link("other.h5", kQuery, kQuery);
       }),
       {kQuery, "an external link"}},
      {"soft link out of the group",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         e.soft_link("/tasks/beta/query", kQuery);
       }),
       {kQuery, "a soft link to \"/tasks/beta/query\""}},
      {"soft link to itself",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         e.soft_link("query", kQuery);
       }),
       {kQuery, "a chain of soft links"}},
      {"dangling soft link",
       with([](Hdf5Edit& e) {
         e.unlink(kQuery);
         e.soft_link("gone", kQuery);
       }),
       {kQuery, "a dangling soft link"}},
      {"task that is its own parent",
       with([](Hdf5Edit& e) { e.hard_link("/tasks", "/tasks/loop"); }),
       {"/tasks/loop", "a second name"}},
      {"one task under two names",
       with([](Hdf5Edit& e) { e.hard_link("/tasks/alpha", "/tasks/again"); }),
       {"/tasks/alpha", "a second name"}},
      {"virtual dataset",
       with([](Hdf5Edit& e) {
         const hsize_t shape[5] = {3, 2, 4, 2, 16};
         const hid_t space = H5Screate_simple(5, shape, nullptr), plist = H5Pcreate(H5P_DATASET_CREATE);
         H5Pset_virtual(plist, space, "/etc/hostname", "/x", space);
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 4, 2, 16}, plist);
         H5Pclose(plist);
         H5Sclose(space);
       }),
       {kQuery, "a virtual dataset"}},
      {"external storage",
       with([](Hdf5Edit& e) {
         const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
         H5Pset_external(plist, "/etc/passwd", 0, H5F_UNLIMITED);
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 4, 2, 16}, plist);
         H5Pclose(plist);
       }),
       {kQuery, "external storage"}},
      {"more examples than any file of this size",
       with([](Hdf5Edit& e) {
         huge_query(e, {hsize_t{1} << 40, 2, 4, 2, 16});
       }),
       {kQuery, "can hold", "1099511627776"}},
      {"sizes whose product overflows",
       with([](Hdf5Edit& e) {
         huge_query(e, {hsize_t{1} << 60, hsize_t{1} << 60, 4, 2, 16});
       }),
       {kQuery, "can hold"}},
      {"a huge chunk",
       with([](Hdf5Edit& e) {
         const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t chunk[5] = {1, 1, 1, hsize_t{1} << 24, 16};
         const hsize_t shape[5] = {3, 2, 4, 2, 16};
         const hsize_t most[5] = {3, 2, 4, H5S_UNLIMITED, 16};
         H5Pset_chunk(plist, 5, chunk);
         e.unlink(kQuery);
         const hid_t space = H5Screate_simple(5, shape, most);
         H5Dclose(H5Dcreate2(e.file(), kQuery, H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT));
         H5Sclose(space);
         H5Pclose(plist);
       }),
       {kQuery, "chunks"}},
      {"a compressed chunk much longer than what it may hold",
       with([](Hdf5Edit& e) {
         const hid_t plist = chunked({3, 6});
         H5Pset_deflate(plist, 6);
         const std::string path = "/tasks/alpha/key_position";
         e.dataset(path, H5T_STD_I32LE, {3, 6}, plist);
         const std::vector<char> stream(5000, '\x55');
         const hsize_t origin[2] = {0, 0};
         const hid_t set = H5Dopen2(e.file(), path.c_str(), H5P_DEFAULT);
         H5Dwrite_chunk(set, H5P_DEFAULT, 0, origin, stream.size(), stream.data());
         H5Dclose(set);
         H5Pclose(plist);
       }),
       {"/tasks/alpha/key_position, chunk at [0, 0]", "at most the chunk's 72 bytes, compressed",
        "5000 bytes"}},
      {"a short stream that inflates far beyond its chunk",
       bomb("/tasks/alpha/key_position", {3, 6}, {3, 6}),
       {"/tasks/alpha/key_position, chunk at [0, 0]", "a chunk of 72 bytes", "damage"}},
      {"the same in vectors",
       bomb(kQuery, {3, 2, 4, 2, 16}, {1, 1, 4, 2, 16}),
       {std::string(kQuery) + ", chunk at [0, 0, 0, 0, 0]", "a chunk of 512 bytes", "damage"},
       false},
      {"filter that is not installed",
       with([](Hdf5Edit& e) {
         const H5Z_class2_t filter = {H5Z_CLASS_T_VERS,
                                      511,
                                      1,
                                      1,
                                      "wonder \x1b press",
                                      nullptr,
                                      nullptr,
                                      [](unsigned, std::size_t, const unsigned*, std::size_t bytes,
                                         std::size_t*, void**) { return bytes; }};
         H5Zregister(&filter);
         const hid_t plist = chunked({1, 2, 4, 2, 16});
         H5Pset_filter(plist, 511, 0, 0, nullptr);
         const std::vector<float> values(768);
         e.dataset(kQuery, H5T_IEEE_F32LE, {3, 2, 4, 2, 16}, plist, H5T_NATIVE_FLOAT, values.data());
         H5Pclose(plist);
         H5Zunregister(511);
       }),
       {kQuery, "compression", "filter 511 \"wonder \\x1b press\""}},
  };
}

std::vector<Hostile> hostile_values() {
  const auto with = [](auto edit) { return std::function<void(Hdf5Edit&)>(edit); };
  return {
      {"window 1",
       with([](Hdf5Edit& e) { e.set("/tasks/alpha/window", {2}, 1); }),
       {"/tasks/alpha/window[2]", "from 2 to 16777216", "found 1"}},
      {"window past 2^24",
       with([](Hdf5Edit& e) { e.set("/tasks/alpha/window", {0}, (1 << 24) + 1); }),
       {"/tasks/alpha/window[0]", "16777217"}},
      {"negative window", with([](Hdf5Edit& e) { e.set("/tasks/alpha/window", {0}, -5); }), {"-5"}},
      {"windows never written",
       with([](Hdf5Edit& e) { e.dataset("/tasks/alpha/window", H5T_STD_I32LE, {3}); }),
       {"/tasks/alpha/window[0]", "found 0"}},
      {"window smaller than a position",
       with([](Hdf5Edit& e) { e.set("/tasks/alpha/window", {0}, 150); }),
       {"/tasks/alpha/query_position[0, 0]", "window of 150", "198"}},
      {"position -2",
       with([](Hdf5Edit& e) {
         e.set("/tasks/alpha/key_position", {1, 2}, -2);
       }),
       {"/tasks/alpha/key_position[1, 2]", "found -2"}},
      {"unsigned position past int64",
       with([](Hdf5Edit& e) {
         const std::vector<std::uint64_t> huge(18, ~std::uint64_t{0});
         e.dataset("/tasks/alpha/key_position", H5T_STD_U64LE, {3, 6}, H5P_DEFAULT, H5T_NATIVE_UINT64,
                   huge.data());
       }),
       {"/tasks/alpha/key_position[0, 0]"}},
      {"key after a query",
       with([](Hdf5Edit& e) {
         e.set("/tasks/alpha/key_position", {1, 5}, 209);
       }),
       {"/tasks/alpha/key_position[1, 5]", "before every query", "208", "found 209"}},
      {"triplet slot out of range",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/triplet_key_pair", {3, 1, 2}, {0, 1, 2, 6, 0, 1});
       }),
       {"/tasks/alpha/triplet_key_pair[1, 0]", "0 to 5", "found 6"}},
      {"triplet of one key",
       with([](Hdf5Edit& e) {
         e.integers("/tasks/alpha/triplet_key_pair", {3, 1, 2}, {0, 1, 2, 3, 4, 4});
       }),
       {"/tasks/alpha/triplet_key_pair[2, 0]", "two different key slots"}},
  };
}

void check_refused(const std::vector<Hostile>& cases) {
  const test::TempDir dir;
  for (const Hostile& hostile : cases) {
    CAPTURE(hostile.name);
    const std::string path = dir / "hostile.h5";
    test::write_cache(path, test::random_cache());
    {
      Hdf5Edit edit(path);
      hostile.edit(edit);
    }
    const std::string message = refusal(path);
    CAPTURE(message);
    CHECK(message.starts_with(path + ": "));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.find("expected ") != std::string::npos);
    for (const std::string& piece : hostile.says) {
      CAPTURE(piece);
      CHECK(message.find(piece) != std::string::npos);
    }
    if (hostile.check_sees) CHECK(failed_checks(path) >= 1);
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("hostile attributes and model groups are refused") { check_refused(hostile_attributes()); }
TEST_CASE("hostile task datasets are refused") { check_refused(hostile_datasets()); }
TEST_CASE("hostile links, storage and sizes are refused") { check_refused(hostile_storage()); }
TEST_CASE("hostile windows, positions and triplets are refused") { check_refused(hostile_values()); }

TEST_CASE("bad example ids and task names are refused") {
  const test::TempDir dir;
  const auto message_of = [&](const std::vector<std::string>& ids, std::size_t fixed) {
    test::CacheSpec cache = test::random_cache();
    cache.tasks[0].example_id = ids;
    cache.tasks[0].storage.fixed_id_bytes = fixed;
    test::write_cache(dir / "ids.h5", cache);
    std::string message = refusal(dir / "ids.h5");
    CHECK((message.empty() || failed_checks(dir / "ids.h5") == 1));
    return message;
  };
  for (const std::size_t fixed : {0u, 8u}) {
    CHECK(message_of({"a", "b", "c"}, fixed).empty());
    CHECK(message_of({"a", "b", "a"}, fixed).find("\"a\" again, as in row 0") != std::string::npos);
    CHECK(message_of({"a", "", "c"}, fixed).find("example_id[1]") != std::string::npos);
    CHECK(message_of({"a", "b", "x\ny"}, fixed).find("\"x\\x0ay\"") != std::string::npos);
    CHECK(message_of({"a", "b", "\xc0\xaf"}, fixed).find("UTF-8") != std::string::npos);
  }
  CHECK(message_of({"a", "b", std::string(1025, 'x')}, 0).find("1024 bytes") != std::string::npos);
  test::CacheSpec cache = test::random_cache();
  cache.tasks[0].header.name = "al\x07pha";
  test::write_cache(dir / "name.h5", cache);
  CHECK(refusal(dir / "name.h5").find("\"al\\x07pha\"") != std::string::npos);
}

TEST_CASE("what is no HDF5 file is refused, by inspect too") {
  const test::TempDir dir;
  const auto refused = [&](const std::string& path, const std::string& piece) {
    CAPTURE(path);
    const std::string message = refusal(path);
    CAPTURE(message);
    CHECK(message.starts_with(path + ": "));
    CHECK(message.find(piece) != std::string::npos);
    CHECK_THROWS_AS(ActivationFile::check(path), UserError);
  };
  refused(dir / "missing.h5", "No such file");
  refused(dir.path().string(), "a folder");
  put_bytes(dir / "empty.h5", "");
  refused(dir / "empty.h5", "an empty file");
  put_bytes(dir / "text.h5", "task,score\n");
  refused(dir / "text.h5", "starts with \"task,sco\"");
  std::mt19937_64 random(3);
  std::string noise(50000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  put_bytes(dir / "noise.h5", noise);
  refused(dir / "noise.h5", "an HDF5 file");
  test::write_cache(dir / "good.h5", test::random_cache());
  const std::string good = bytes_of(dir / "good.h5");
  put_bytes(dir / "signature.h5", good.substr(0, 8) + noise);
  refused(dir / "signature.h5", "HDF5");
  for (const double share : {0.01, 0.3, 0.9, 0.999}) {
    put_bytes(dir / "cut.h5",
              good.substr(0, static_cast<std::size_t>(share * static_cast<double>(good.size()))));
    refused(dir / "cut.h5", "HDF5");
  }
}

TEST_CASE("a damaged chunk is an error, not other numbers") {
  const test::TempDir dir;
  for (int filter = 0; filter < 3; ++filter) {
    CAPTURE(filter);
    test::CacheSpec cache = test::random_cache();
    CacheStorage& storage = cache.tasks[0].storage;
    storage.chunk = {1, 0, 0, 0, 0};
    if (filter == 0) storage.gzip = 6;
    if (filter == 1) storage.fletcher32 = true;
    if (filter == 2) storage.lzf = true;
    if (filter == 2) std::fill(cache.tasks[0].query.begin(), cache.tasks[0].query.end(), 1.0);
    test::write_cache(dir / "good.h5", cache);
    std::string bytes = bytes_of(dir / "good.h5");
    REQUIRE(refusal(dir / "good.h5").empty());
    std::int64_t at = 0;
    {
      const hid_t file = H5Fopen((dir / "good.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
      const hid_t set = H5Dopen2(file, kQuery, H5P_DEFAULT), space = H5Dget_space(set);
      hsize_t origin[5];
      unsigned mask = 0;
      haddr_t address = 0;
      hsize_t size = 0;
      REQUIRE(H5Dget_chunk_info(set, space, 1, origin, &mask, &address, &size) >= 0);
      REQUIRE(mask == 0);  // the filter did its work
      at = static_cast<std::int64_t>(address + size / 2);
      H5Sclose(space);
      H5Dclose(set);
      H5Fclose(file);
    }
    for (std::int64_t i = 0; i < 12; ++i) bytes[static_cast<std::size_t>(at + i)] ^= '\x55';
    put_bytes(dir / "bad.h5", bytes);
    const std::string message = refusal(dir / "bad.h5");
    CAPTURE(message);
    CHECK(message.find(kQuery) != std::string::npos);
  }
}

TEST_CASE("datasets in one large compressed chunk are decoded once, not once per example") {
  const test::TempDir dir;
  const std::string path = dir / "one_chunk.h5";
  test::RandomCache sizes;
  sizes.num_layers = 1;
  sizes.query_heads = sizes.kv_heads = 1;
  sizes.head_dim = 2;
  sizes.examples = 4000;
  sizes.query_slots = 40;
  sizes.key_slots = 40;
  sizes.window = 2000;
  sizes.tasks = {"alpha"};
  test::write_cache(path, test::random_cache(sizes));
  {
    Hdf5Edit edit(path);
    const auto one_chunk = [&](const char* name, const std::vector<hsize_t>& shape, std::int64_t step) {
      const hid_t plist = chunked(shape);
      H5Pset_deflate(plist, 1);
      std::vector<std::int64_t> values(shape[0] * 40);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i % 40) + step;
      edit.dataset(name, H5T_STD_I64LE, shape, plist, H5T_NATIVE_INT64, values.data());
      H5Pclose(plist);
    };
    one_chunk("/tasks/alpha/query_position", {4000, 40}, 1000);  // 1.28 MB: over HDF5's own cache of 1 MiB
    one_chunk("/tasks/alpha/key_position", {4000, 40}, 0);
    one_chunk("/tasks/alpha/triplet_key_pair", {4000, 20, 2}, 0);
  }
  // Once per example it is 12,000 times 1.28 MB, over 10 seconds; once, well below one.
  const std::clock_t start = std::clock();
  CHECK(refusal(path).empty());
  CHECK(failed_checks(path) == 0);
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
}

TEST_CASE("a contiguous dataset that reaches past the end of the file is refused") {
  const test::TempDir dir;
  const std::string path = dir / "cache.h5";
  test::CacheSpec cache = test::random_cache();
  test::write_cache(path, cache);
  std::string bytes = bytes_of(path);
  std::int64_t offset = 0;
  {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, kQuery, H5P_DEFAULT);
    offset = static_cast<std::int64_t>(H5Dget_offset(set));
    H5Dclose(set);
    H5Fclose(file);
  }
  // The address of the data in the object header: make it the last kilobyte of the file.
  std::string address(8, '\0'), moved(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    address[i] = static_cast<char>(offset >> (8 * i));
    moved[i] = static_cast<char>((bytes.size() - 1000) >> (8 * i));
  }
  const std::size_t found = bytes.find(address);
  REQUIRE(found != std::string::npos);
  bytes.replace(found, 8, moved);
  put_bytes(path, bytes);
  const std::string message = refusal(path);
  CAPTURE(message);
  CHECK(message.find(kQuery) != std::string::npos);
  CHECK(message.find("data inside the file") != std::string::npos);
}

TEST_CASE("damaged references to texts neither crash nor fill memory") {
  const test::TempDir dir;
  test::CacheSpec cache = test::random_cache();
  cache.model.name = "a name of thirty-seven characters ...";
  test::write_cache(dir / "good.h5", cache);
  const std::string good = bytes_of(dir / "good.h5");
  // A text attribute holds length (4 bytes), address of a heap that starts with GCOL (8), index in it (4).
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(good[at + i]);
    return value;
  };
  std::size_t place = 0;
  for (std::size_t at = 0; at + 16 < good.size() && place == 0; ++at) {
    const std::uint64_t length = number(at, 4), heap = number(at + 4, 8);
    if ((length == 37 || length == 38) && heap < good.size() && good.compare(heap, 4, "GCOL") == 0)
      place = at;
  }
  REQUIRE(place > 0);
  const auto damaged = [&](std::size_t offset, const std::string& bytes) {
    std::string bad = good;
    bad.replace(place + offset, bytes.size(), bytes);
    put_bytes(dir / "bad.h5", bad);
    return refusal(dir / "bad.h5");
  };
  const std::string index =
      damaged(12, std::string("\xff\xff\0\0", 4));  // outside the heap: HDF5 1.10 reads wild memory
  CAPTURE(index);
  // The library crashes in the guard's child, or finds an empty text there, by what the heap holds.
  CHECK((index.find("damage on which") != std::string::npos ||
         index.find("/model (attribute name)") != std::string::npos));
#ifndef __SANITIZE_ADDRESS__
  const std::string length = damaged(3, "\x7f");  // 2 GB of text
  CAPTURE(length);
  CHECK(length.find("/model (attribute name)") != std::string::npos);
  CHECK(length.find("memory allocation failed") != std::string::npos);
#endif
}

TEST_CASE("hundreds of damaged files: refused or read, never a crash or a hang") {
  const test::TempDir dir;
  std::mt19937_64 random(20260910);
  const std::string path = dir / "damaged.h5";
  std::size_t refused = 0, total = 0;
  for (int form = 0; form < 3; ++form) {
    test::RandomCache sizes;
    sizes.examples = 2;
    sizes.num_layers = 1;
    sizes.head_dim = 8;
    sizes.query_heads = 2;
    sizes.kv_heads = 1;
    test::CacheSpec cache = test::random_cache(sizes);
    for (test::TaskSpec& task : cache.tasks) {
      if (form > 0) task.storage.chunk = {1, 1, 1, 1, 8};
      if (form == 1) task.storage.gzip = 3, task.storage.shuffle = task.storage.fletcher32 = true;
      if (form == 2) task.storage.lzf = true;
    }
    test::write_cache(dir / "good.h5", cache);
    const std::string good = bytes_of(dir / "good.h5");
    for (int variant = 0; variant < 120; ++variant, ++total) {
      std::string bad = good;
      if (variant % 10 == 0) bad.resize(random() % bad.size());
      for (std::uint64_t i = 0; i <= random() % 4 && !bad.empty(); ++i) {
        char& byte = bad[random() % bad.size()];
        const std::uint64_t how = random() % 4;
        byte = how == 0   ? static_cast<char>(random())
               : how == 1 ? static_cast<char>(byte ^ (1 << (random() % 8)))
                          : static_cast<char>(how == 2 ? 0xff : 0);
      }
      put_bytes(path, bad);
      CAPTURE(form);
      CAPTURE(variant);
      if (!refusal(path).empty()) ++refused;
    }
  }
  CHECK(refused > total / 8);
  CHECK(refused < total);  // some damage lies in values or unused bytes
}

TEST_SUITE_END();
