#include "profiler/profile_file.hpp"

#include <doctest/doctest.h>
#include <hdf5.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <tuple>

#include "profiler/error.hpp"
#include "support/make_profile.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return true;
}

/// Everything that a ProfileReader can say.
std::size_t read_all(const std::string& path) {
  const ProfileReader reader(path);
  std::size_t values = 0;
  for (const auto& task : reader.tasks()) {
    values += reader.example_ids(task, 0, task.examples).size();
    values += reader.windows(task, 0, task.examples).size();
    for (int s = 0; s < static_cast<int>(Score::kCount); ++s)
      values += reader.read(task, static_cast<Score>(s), 0, task.examples).size();
    for (int c = 0; c < static_cast<int>(Count::kCount); ++c)
      values += reader.read(task, static_cast<Count>(c), 0, task.examples).size();
    for (const auto& s : reader.usage(task)) values += s.usage.size();
  }
  return values;
}

std::string complaint(const std::string& path) {
  try {
    read_all(path);
  } catch (const UserError& error) {
    CHECK(error.code() == ExitCode::kInput);
    std::string text = error.what();
    CHECK(text.find(path) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "";
}

/// Removes `name` and, where `make` is given, lets it put something else there.
template <class Make>
std::string after_change(const std::string& path, const char* name, Make make) {
  make_profile(path, ProfileRecipe{});
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(file >= 0);
  REQUIRE(H5Ldelete(file, name, H5P_DEFAULT) >= 0);
  make(file);
  H5Fclose(file);
  return complaint(path);
}

void put_dataset(hid_t file, const char* name, hid_t type, std::vector<hsize_t> shape, hsize_t chunk = 0,
                 herr_t (*filter)(hid_t) = nullptr) {
  const std::vector<hsize_t> limits(shape.size(), H5S_UNLIMITED);
  const hid_t space =
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), chunk ? limits.data() : nullptr);
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  const std::vector<hsize_t> chunks(shape.size(), chunk);
  if (chunk) H5Pset_chunk(plist, static_cast<int>(shape.size()), chunks.data());
  if (filter) filter(plist);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  CHECK(dataset >= 0);
  H5Dclose(dataset);
  H5Pclose(plist);
  H5Sclose(space);
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("chunks of scores are stored as they are, missing values deflated") {
  TempDir folder;
  const std::string path = folder / "p.h5";
  constexpr int kRows = 70, kHeads = 300;  // chunks of 27 rows, the last one partly filled
  std::mt19937_64 generator(5);
  ScoreTable table{{"task"}, kHeads, {}, {{Score::kSemantic, {}}, {Score::kPositional, {}}}};
  for (auto& [score, cube] : table.scores) {
    cube.assign(1, {kRows, std::vector<double>(kHeads, std::nan(""))});
    for (auto& row : cube[0])
      for (std::size_t n = 0; n < row.size(); ++n)
        if (score == Score::kSemantic || n % 20 == 0) row[n] = unit(generator);
  }
  make_profile(path, table);
  const ProfileReader reader(path);
  for (const auto& [score, cube] : table.scores) {
    std::vector<double> flat;
    for (const auto& row : cube[0]) flat.insert(flat.end(), row.begin(), row.end());
    CHECK(same(reader.read(reader.tasks()[0], score, 0, kRows), flat));
  }
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const auto& [score, most, least] :
       {std::tuple(Score::kSemantic, 27 * kHeads * 8, 27 * kHeads * 8), {Score::kPositional, 10000, 1}}) {
    const std::string name = std::string("/tasks/task/") + column(score).name;
    const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
    const hsize_t first[2] = {0, 0};
    hsize_t stored = 0;
    CHECK(H5Dget_chunk_storage_size(dataset, first, &stored) >= 0);
    CHECK(stored <= static_cast<hsize_t>(most));
    CHECK(stored >= static_cast<hsize_t>(least));
    H5Dclose(dataset);
  }
  H5Fclose(file);
}

TEST_CASE("a profile reads back what was put") {
  TempDir folder;
  const std::string path = folder / "p.h5";
  const ProfileRecipe recipe;
  make_profile(path, recipe);
  const ProfileReader reader(path);
  const ProfileHeader header = recipe_header(recipe);
  CHECK(reader.header().model_name == header.model_name);
  CHECK(reader.header().model_type == header.model_type);
  CHECK(reader.header().tool_version == header.tool_version);
  CHECK(reader.header().settings == header.settings);
  CHECK(reader.header().warnings == header.warnings);
  CHECK(reader.header().heads == header.heads);
  REQUIRE(reader.header().layers.size() == header.layers.size());
  CHECK(reader.header().layers[1].rope_type == "none");
  CHECK(reader.header().layers[3].logit_scale == 0.125);
  CHECK(reader.header().layers[3].kv_heads == 1);
  REQUIRE(reader.tasks().size() == 3);
  const auto& task = reader.tasks()[1];
  CHECK(task.name == "task-1");
  CHECK(task.family == "family");
  CHECK(task.nominal_length == 4096);
  CHECK(task.layers == std::vector<int>{0, 1, 2, 3});
  CHECK(task.examples == 4);
  CHECK(reader.example_ids(task, 1, 2) == std::vector<std::string>{"id-1, \"quoted\" \xc3\xa9", "id-2"});
  CHECK(reader.windows(task, 1, 2) == std::vector<std::int64_t>{101, 102});
  REQUIRE(reader.inputs().size() == 2);
  CHECK(reader.inputs()[0].sha256 == std::string(64, 'a'));
  CHECK(reader.inputs()[1].sha256.empty());
  CHECK(reader.inputs()[1].bytes == 13);
  CHECK(reader.selection().rule == "top:0.05");
  CHECK(reader.selection().counted == 6);
  CHECK(reader.selection().order == std::vector<std::int64_t>{0, 1, 4, 5, 6, 7});
  CHECK(reader.selection().selected == std::vector<char>{1, 0, 0, 0, 0, 0, 1, 0});
  CHECK(std::isnan(reader.selection().variance[2]));
  const auto spectra = reader.usage(task);
  REQUIRE(spectra.size() == 1);
  CHECK(spectra[0].omega == std::vector<double>{1.0, 0.1, 0.0});
  CHECK(spectra[0].heads.size() == 6);
  CHECK(std::isnan(spectra[0].usage[2]));

  // The recipe's own stream of numbers, drawn again.
  std::mt19937_64 generator(recipe.seed);
  std::vector<double> first;
  for (const auto& head : header.heads) {
    const double value = unit(generator), coin = unit(generator);
    first.push_back(!head.rotates || coin < 0.1 ? NAN : value);
  }
  CHECK(same(reader.read(reader.tasks()[0], Score::kSemantic, 0, 1), first));
  const auto all = reader.read(task, Score::kNormShare, 0, 4),
             part = reader.read(task, Score::kNormShare, 2, 2);
  CHECK(same({all.begin() + 16, all.end()}, part));
  for (const double value : reader.read(task, Score::kAliasing, 0, 4)) CHECK(std::isnan(value));
  CHECK(reader.read(task, Count::kPairs, 3, 1)[2] == 0);
  CHECK(reader.read(task, Count::kPairs, 3, 1)[0] > 0);
}

TEST_CASE("a profile is readable while it is written, and rows may be put again") {
  TempDir folder;
  const ProfileRecipe recipe;
  for (const std::string& path : {folder / "p.h5", std::string()}) {
    ProfileWriter writer(path, false, recipe_header(recipe));
    fill_profile(writer, ProfileRecipe{4, 3, 7, false, false, false, false});
    const std::string scratch = writer.flush();
    {
      const ProfileReader reader(scratch);
      const auto& task = reader.tasks()[2];
      CHECK(reader.selection().order.empty());
      CHECK(reader.selection().selected == std::vector<char>(8, 0));
      const std::vector<double> row{1, 2, 3, 4, 5, 6, 7, 8};
      writer.put(task.name, Score::kPositional, 2, row);
      const auto before = reader.read(task, Score::kPositional, 1, 1);
      writer.flush();
      CHECK(same(reader.read(task, Score::kPositional, 2, 1), row));
      CHECK(same(reader.read(task, Score::kPositional, 1, 1), before));
      HeadSelection s = ProfileReader(scratch).selection();
      s.rule = "all";
      writer.put_selection(s);
      writer.commit();  // with a reader still open
    }
    CHECK(std::filesystem::exists(scratch) == path.empty());
    if (!path.empty()) CHECK(ProfileReader(path).selection().rule == "all");
  }
}

TEST_CASE("an open reader sees what a growing profile gains") {
  TempDir folder;
  ProfileWriter writer(folder / "p.h5", false, recipe_header({}));
  writer.add_task({"t", "", "", 0, {0}, 2});
  const ProfileReader reader(writer.flush());
  CHECK(reader.usage(reader.tasks()[0]).empty());
  UsageSpectrum big;  // far more than the file had when it was opened
  big.omega.assign(1000, 0.5);
  big.heads = {0, 1};
  big.examples = {2, 2};
  big.usage.assign(2000, 0.25);
  big.usage_norm.assign(2000, 0.75);
  writer.put_usage("t", {big});
  writer.flush();
  const auto spectra = reader.usage(reader.tasks()[0]);
  REQUIRE(spectra.size() == 1);
  CHECK(spectra[0].usage == big.usage);
  CHECK(spectra[0].usage_norm == big.usage_norm);
}

TEST_CASE("nothing is left of a profile that is not committed") {
  TempDir folder;
  {
    ProfileWriter writer(folder / "p.h5", false, recipe_header({}));
    fill_profile(writer, {});
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("equal content gives equal bytes, in another process and at another time too") {
  TempDir folder;
  const ProfileRecipe recipe{8, 4, 99, true, true, true, false};
  make_profile(folder / "a.h5", recipe);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char> dirt(1 << 22, 'x');  // another heap
    ::sleep(1);                            // another time stamp
    make_profile(folder / "b.h5", recipe);
    _exit(dirt[5] == 'x' ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  const std::string a = content(folder / "a.h5");
  CHECK(a.size() > 1000);
  CHECK(a == content(folder / "b.h5"));
  ProfileRecipe other = recipe;
  other.seed = 100;
  make_profile(folder / "c.h5", other);
  CHECK(a != content(folder / "c.h5"));
}

TEST_CASE("a misused writer says so") {
  TempDir folder;
  ProfileWriter writer(folder / "p.h5", false, recipe_header({}));
  writer.add_task({"t", "", "", 0, {0}, 2});
  const std::vector<double> row(8, 0.5);
  CHECK_THROWS_AS(writer.add_task({"t", "", "", 0, {0}, 2}), std::logic_error);
  CHECK_THROWS_AS(writer.put("t", Score::kSemantic, 2, row), std::logic_error);
  CHECK_THROWS_AS(writer.put("t", Score::kSemantic, -1, row), std::logic_error);
  CHECK_THROWS_AS(writer.put("u", Score::kSemantic, 0, row), std::logic_error);
  CHECK_THROWS_AS(writer.put("t", Score::kSemantic, 0, std::span(row).first(7)), std::logic_error);
  CHECK_THROWS_AS(writer.put_example("t", 2, "x", 10), std::logic_error);
}

TEST_CASE("files that are no profiles are refused by name") {
  TempDir folder;
  const std::string path = folder / "p.h5";
  CHECK(complaint(path).find("cannot open") != std::string::npos);
  CHECK(complaint(folder.path().string()).find("a folder") != std::string::npos);
  std::ofstream(path) << "task,w_s\n";
  CHECK(complaint(path).find("an HDF5 file") != std::string::npos);
  H5Fclose(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  CHECK(complaint(path).find("(attribute format)") != std::string::npos);
}

TEST_CASE("wrong types, shapes and links inside a profile are named") {
  TempDir folder;
  const std::string path = folder / "p.h5";
  const auto nothing = [](hid_t) {};
  CHECK(after_change(path, "/heads", nothing).find("/heads") != std::string::npos);
  CHECK(after_change(path, "/heads/head", nothing).find("/heads/head") != std::string::npos);
  CHECK(after_change(path, "/tasks/task-1/window", nothing).find("/tasks/task-1/window") !=
        std::string::npos);
  CHECK(after_change(path, "/selection/order", [](hid_t f) {
          put_dataset(f, "/selection/order", H5T_IEEE_F64LE, {3});
        }).find("expected an integer type") != std::string::npos);
  CHECK(after_change(path, "/tasks/task-0/semantic_score", [](hid_t f) {
          put_dataset(f, "/tasks/task-0/semantic_score", H5T_IEEE_F64LE, {3, 9});
        }).find("shape [examples, heads] = [3, 8]") != std::string::npos);
  CHECK(after_change(path, "/tasks/task-0/semantic_score", [](hid_t f) {
          put_dataset(f, "/tasks/task-0/semantic_score", H5T_IEEE_F64LE, {3, 8}, hsize_t{1} << 14);
        }).find("chunks") != std::string::npos);
  CHECK(after_change(path, "/tasks/task-0/window", [](hid_t f) {
          put_dataset(f, "/tasks/task-0/window", H5T_STD_I64LE, {hsize_t{1} << 50}, 8);
        }).find("/tasks/task-0/window") != std::string::npos);
  CHECK(after_change(path, "/heads/layer", [](hid_t f) {
          put_dataset(f, "/heads/layer", H5T_STD_I64LE, {hsize_t{1} << 40}, 8);
        }).find("bytes can hold") != std::string::npos);
  CHECK(after_change(path, "/heads/head", [](hid_t f) {
          put_dataset(f, "/heads/head", H5T_STD_I64LE, {8});  // zeros: two heads (0, 0)
        }).find("out of order") != std::string::npos);
  CHECK(after_change(path, "/warnings", [](hid_t f) {
          const hid_t text = H5Tcopy(H5T_C_S1);
          H5Tset_size(text, H5T_VARIABLE);
          put_dataset(f, "/warnings", text, {1});
          H5Tclose(text);
        }).find("variable length") != std::string::npos);
  CHECK(after_change(path, "/heads", [](hid_t f) {
          H5Lcreate_external("/etc/other.h5", "/heads", f, "heads", H5P_DEFAULT, H5P_DEFAULT);
        }).find("external link") != std::string::npos);
  CHECK(after_change(path, "/layers", [](hid_t f) {
          H5Lcreate_soft("/layers", f, "layers", H5P_DEFAULT, H5P_DEFAULT);
        }).find("link") != std::string::npos);
  CHECK(after_change(path, "/heads/head", [](hid_t f) {
          H5Lcreate_soft("layer", f, "heads/head", H5P_DEFAULT, H5P_DEFAULT);  // fine in caches
        }).find("a soft link") != std::string::npos);
  CHECK(after_change(path, "/selection/variance", [](hid_t f) {
          put_dataset(f, "/selection/variance", H5T_IEEE_F64LE, {8}, 8, H5Pset_fletcher32);
        }).find("shuffled and deflated") != std::string::npos);
  CHECK(after_change(path, "/warnings", [](hid_t f) {
          const hid_t text = H5Tcopy(H5T_C_S1);
          H5Tset_size(text, (std::size_t{1} << 20) + 1);
          put_dataset(f, "/warnings", text, {0});
          H5Tclose(text);
        }).find("texts of at most 1048576 bytes") != std::string::npos);
  CHECK(after_change(path, "/heads/layer", [](hid_t f) {
          put_dataset(f, "/heads/layer", H5T_STD_I64LE, {1 << 20}, 1 << 10);  // 8 MiB in a few KiB
        }).find("to be read whole") != std::string::npos);
  CHECK(after_change(path, "/tasks", [](hid_t f) {
          H5Lcreate_hard(f, "/", f, "tasks", H5P_DEFAULT, H5P_DEFAULT);  // a cycle
        }).find("/tasks/") != std::string::npos);
}

TEST_CASE("attributes of a profile have to be text of fixed length and whole numbers") {
  TempDir folder;
  const std::string path = folder / "p.h5";
  const auto complaint_after = [&](const char* group, const char* name, hid_t type, const void* value) {
    make_profile(path, ProfileRecipe{});
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t object = H5Gopen2(file, group, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    REQUIRE(H5Adelete(object, name) >= 0);
    if (value) {
      const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
      CHECK(H5Awrite(attribute, type, value) >= 0);
      H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Gclose(object);
    H5Fclose(file);
    return complaint(path);
  };
  const hid_t variable = H5Tcopy(H5T_C_S1);
  H5Tset_size(variable, H5T_VARIABLE);
  const char* text = "x";
  const double half = 0.5;
  const std::int64_t many = -1;
  const std::vector<std::pair<const char*, std::string>> texts{
      {"/settings", recipe_header({}).settings[0].first}, {"/model", "name"}, {"/tasks/task-1", "source"}};
  for (const auto& one : texts) {
    CAPTURE(one.second);
    CHECK(complaint_after(one.first, one.second.c_str(), variable, &text).find("text of variable length") !=
          std::string::npos);
    CHECK(complaint_after(one.first, one.second.c_str(), H5T_NATIVE_DOUBLE, &half).find("expected text") !=
          std::string::npos);
  }
  H5Tclose(variable);
  CHECK(complaint_after("/model", "name", 0, nullptr)
            .find("/model (attribute name): expected text, found nothing") != std::string::npos);
  CHECK(complaint_after("/tasks/task-1", "examples", 0, nullptr).find("found nothing") != std::string::npos);
  CHECK(complaint_after("/tasks/task-1", "examples", H5T_NATIVE_DOUBLE, &half).find("an integer") !=
        std::string::npos);
  CHECK_FALSE(complaint_after("/tasks/task-1", "examples", H5T_NATIVE_INT64, &many).empty());
}

TEST_CASE("truncated profiles are refused") {
  TempDir folder;
  make_profile(folder / "p.h5", ProfileRecipe{});
  const std::string whole = content(folder / "p.h5");
  for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 61) {
    std::ofstream(folder / "cut.h5", std::ios::binary)
        .write(whole.data(), static_cast<std::streamsize>(size));
    CHECK_FALSE(complaint(folder / "cut.h5").empty());
  }
}

TEST_CASE("profiles with damaged bytes read or are refused, nothing else") {
  TempDir folder;
  make_profile(folder / "p.h5", ProfileRecipe{});
  const std::string whole = content(folder / "p.h5");
  std::mt19937_64 generator(20260910);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole;
    const int changes = 1 + static_cast<int>(generator() % 4);
    for (int i = 0; i < changes; ++i) damaged[generator() % damaged.size()] = static_cast<char>(generator());
    const std::string path = folder / "damaged.h5";
    std::ofstream(path, std::ios::binary) << damaged;
    CAPTURE(round);
    refused += !complaint(path).empty();
  }
  MESSAGE("refused ", refused, " of 400");
  CHECK(refused > 0);
}

TEST_SUITE_END();
