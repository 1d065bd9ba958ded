#include "profiler/synth.hpp"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <cmath>
#include <complex>
#include <numeric>
#include <set>

#include "profiler/random.hpp"
#include "support/compare.hpp"
#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("profiler");

using namespace rope;
using namespace rope::test;

namespace {

/// A dataset as float64, read by the library's own conversion: a way that product code does not take.
std::vector<double> read_dataset(const std::string& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(file >= 0);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  REQUIRE(dataset >= 0);
  const hid_t space = H5Dget_space(dataset);
  std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  REQUIRE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  return values;
}

SynthOptions small_cache() {
  SynthOptions o;
  o.layers = 2;
  o.query_heads = 4;
  o.kv_heads = 2;
  o.head_dim = 8;
  o.tasks = 3;
  o.examples = 2;
  o.windows = {100, 150};
  o.queries = 3;
  o.keys = 5;
  o.type = ElementType::kFloat64;
  return o;
}

void write(const std::string& path, const SynthOptions& options) {
  write_synthetic_cache(path, options, [] {});
}

/// Pair n of a vector: lanes (n, n + D/2), or (2n, 2n + 1).
std::complex<double> pair_of(const double* vector, int n, int width, bool interleaved) {
  return interleaved ? std::complex(vector[2 * n], vector[2 * n + 1])
                     : std::complex(vector[n], vector[n + width / 2]);
}

}  // namespace

TEST_CASE("random numbers are the same everywhere and have the right moments") {
  Random random(1, 2, 3);
  const double first = random.uniform();
  CHECK(Random(1, 2, 3).uniform() == first);
  CHECK(Random(1, 3, 2).uniform() != first);
  double sum = 0, squares = 0;
  std::vector<int> counts(5);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    ++counts[random.below(5)];
  }
  CHECK(std::abs(sum / kDraws) < 4.0 / std::sqrt(kDraws));
  CHECK(std::abs(squares / kDraws - 1.0) < 4.0 * std::sqrt(2.0 / kDraws));
  for (const int count : counts) CHECK(std::abs(count - kDraws / 5.0) < 4.0 * std::sqrt(kDraws * 0.16));
  // mt19937_64 is fixed by the standard: its 10000th output from the default seed.
  std::mt19937_64 engine;
  engine.discard(9999);
  CHECK(engine() == 9981545732273789042U);
}

TEST_CASE("spectra sum to one and lean as their names say") {
  for (const auto spectrum :
       {SynthSpectrum::kFlat, SynthSpectrum::kHigh, SynthSpectrum::kLow, SynthSpectrum::kMix})
    for (const std::size_t pairs : {1, 2, 32}) {
      const auto weights = synth_weights(spectrum, 0.3, pairs);
      CHECK(std::abs(std::accumulate(weights.begin(), weights.end(), 0.0) - 1.0) < 1e-14);
      for (const double weight : weights) CHECK(weight > 0.0);
    }
  const auto high = synth_weights(SynthSpectrum::kHigh, 0, 16),
             low = synth_weights(SynthSpectrum::kLow, 1, 16);
  for (std::size_t n = 1; n < 16; ++n) CHECK(high[n] < high[n - 1]);
  for (std::size_t n = 0; n < 16; ++n) CHECK(low[n] == high[15 - n]);
  CHECK(synth_weights(SynthSpectrum::kMix, 1.0, 16) == high);
  CHECK(synth_weights(SynthSpectrum::kMix, 0.0, 16) == low);
  CHECK(synth_high_share(0, 3, 7, 8) == 0.0);  // the last head takes the whole range
  CHECK(synth_high_share(2, 3, 7, 8) == 1.0);
  CHECK(synth_high_share(1, 3, 2, 8) == 0.5);
  CHECK(synth_high_share(0, 1, 7, 8) == 0.5);
}

TEST_CASE("every pair of a synthetic cache has the modulus that its spectrum names") {
  const TempDir folder;
  const SynthOptions o = small_cache();
  write(folder / "c.h5", o);
  const double scale = 1.0 / std::sqrt(8.0);  // softmax scale of llama
  for (int task = 0; task < o.tasks; ++task) {
    const std::string group = "/tasks/task_" + std::to_string(task + 1);
    const auto query = read_dataset(folder / "c.h5", group + "/query");
    const auto key = read_dataset(folder / "c.h5", group + "/key");
    REQUIRE(query.size() == std::size_t{2} * 2 * 4 * 3 * 8);
    REQUIRE(key.size() == std::size_t{2} * 2 * 2 * 5 * 8);
    std::vector<double> moduli, expected;
    for (std::size_t row = 0; row < query.size() / 8; ++row) {
      const int head = static_cast<int>(row / 3 % 8);  // rows are [E, L, Hq, Nq]
      const auto weights = synth_weights(o.spectrum, synth_high_share(task, o.tasks, head, 8), 4);
      for (int n = 0; n < 4; ++n) {
        moduli.push_back(scale * std::abs(pair_of(&query[row * 8], n, 8, false)));
        expected.push_back(kSynthScoreSpan * weights[static_cast<std::size_t>(n)]);
      }
    }
    CHECK_COMPARISON(compare_relative("query moduli", moduli, expected, 1e-14));
    moduli.clear();
    for (std::size_t row = 0; row < key.size() / 8; ++row)
      for (int n = 0; n < 4; ++n) moduli.push_back(std::abs(pair_of(&key[row * 8], n, 8, false)));
    CHECK_COMPARISON(compare_relative("key moduli", moduli, std::vector<double>(moduli.size(), 1.0), 1e-14));
  }
}

TEST_CASE("layout and rotation change the storage and not the content") {
  const TempDir folder;
  SynthOptions o = small_cache();
  write(folder / "pre.h5", o);
  o.layout = spectral::PairLayout::kInterleaved;
  o.query_rotation = o.key_rotation = Rotation::kPost;
  write(folder / "post.h5", o);
  for (const std::string side : {"query", "key"}) {
    const std::string name = "/tasks/task_2/" + side;
    const auto pre = read_dataset(folder / "pre.h5", name), post = read_dataset(folder / "post.h5", name);
    const auto position = read_dataset(folder / "post.h5", name + "_position");
    CHECK(position == read_dataset(folder / "pre.h5", name + "_position"));
    const std::size_t slots = position.size() / 2, rows = pre.size() / 8;
    std::vector<double> found, expected;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t example = row / (rows / 2);
      const double p = position[example * slots + row % slots];
      for (int n = 0; n < 4; ++n) {
        const double omega = std::pow(10000.0, -n / 4.0);
        const auto turned = pair_of(&pre[row * 8], n, 8, false) * std::polar(1.0, p * omega);
        const auto stored = pair_of(&post[row * 8], n, 8, true);
        found.insert(found.end(), {stored.real(), stored.imag()});
        expected.insert(expected.end(), {turned.real(), turned.imag()});
      }
    }
    CHECK_COMPARISON(compare_absolute(side, found, expected, 1e-11));
  }
}

TEST_CASE("equal options give equal bytes; a seed, and more examples, change only what they should") {
  const TempDir folder;
  SynthOptions o = small_cache();
  o.type = ElementType::kBfloat16;
  write(folder / "a.h5", o);
  write(folder / "b.h5", o);
  CHECK(read_file(folder / "a.h5") == read_file(folder / "b.h5"));
  o.seed += 1;
  write(folder / "c.h5", o);
  CHECK(read_file(folder / "a.h5") != read_file(folder / "c.h5"));
  o.seed -= 1;
  o.examples = 4;
  write(folder / "d.h5", o);
  const auto few = read_dataset(folder / "a.h5", "/tasks/task_1/key");
  const auto many = read_dataset(folder / "d.h5", "/tasks/task_1/key");
  REQUIRE(many.size() == 2 * few.size());
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
}

TEST_CASE("sampled keys come before the queries; full coverage holds all tokens up to the last query") {
  const TempDir folder;
  SynthOptions o = small_cache();
  write(folder / "sampled.h5", o);
  o.full_coverage = true;
  write(folder / "full.h5", o);
  for (const std::string file : {"sampled.h5", "full.h5"})
    for (std::size_t e = 0; e < 2; ++e) {
      const auto window = read_dataset(folder / file, "/tasks/task_1/window");
      CHECK(window == std::vector<double>{100, 150});
      auto query = read_dataset(folder / file, "/tasks/task_1/query_position");
      auto key = read_dataset(folder / file, "/tasks/task_1/key_position");
      const std::size_t slots = key.size() / 2;
      query = {query.begin() + static_cast<std::ptrdiff_t>(3 * e),
               query.begin() + static_cast<std::ptrdiff_t>(3 * e + 3)};
      key = {key.begin() + static_cast<std::ptrdiff_t>(slots * e),
             key.begin() + static_cast<std::ptrdiff_t>(slots * (e + 1))};
      CHECK(std::is_sorted(query.begin(), query.end()));
      CHECK(std::set<double>(query.begin(), query.end()).size() == 3);
      CHECK(query.back() < window[e]);
      if (file == "sampled.h5") {
        CHECK(std::set<double>(key.begin(), key.end()).size() == 5);
        CHECK(*std::max_element(key.begin(), key.end()) < query.front());
      } else {
        CHECK(query.back() == window[e] - 1);
        REQUIRE(key.size() == 150);
        for (std::size_t i = 0; i < key.size(); ++i)
          CHECK(key[i] == (static_cast<double>(i) < window[e] ? static_cast<double>(i) : -1.0));
      }
    }
}

TEST_CASE("a window without room for the tokens is refused") {
  SynthOptions o = small_cache();
  o.windows = {100, 6};
  CHECK_THROWS_WITH(write("/dev/null", o), "a window of 6 tokens has no room for 3 queries and 5 keys");
  o.windows = {9};
  o.queries = 4;
  CHECK_NOTHROW(write(TempDir() / "c.h5", o));
}

TEST_SUITE_END();
