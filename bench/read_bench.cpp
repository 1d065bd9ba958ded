// Times reading a cache from the page cache: every vector, head by head, raw and with conversion to float64.
// Usage: rope_read_bench [--quick] [--json OUT] [FILE.h5]. Without a file it writes caches of normal random
// float16 data, [6, 24, 24, 128, 128], in several storages (--quick: the first two), and removes them.

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/cache_writer.hpp"

namespace {

using namespace rope;

/// Processor time: reading from the page cache is copying, and other programs may share the machine.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Reads all vectors, `heads` at a time, every `stride`th group; returns bytes.
double read_all(const ActivationFile& file, int heads, int stride, bool convert) {
  double bytes = 0, sink = 0;
  RawBlock block;
  std::vector<double> values;
  for (const TaskHeader& task : file.tasks())
    for (const auto side : {ActivationFile::Side::kQuery, ActivationFile::Side::kKey}) {
      const int all = side == ActivationFile::Side::kQuery ? task.query_heads : task.kv_heads;
      for (std::int64_t e = 0; e < task.examples; ++e)
        for (int l = 0; l < static_cast<int>(task.layers.size()); ++l)
          for (int h = 0; h < all; h += heads * stride) {
            file.read_block(task, side, e, l, h, std::min(heads, all - h), block);
            bytes += static_cast<double>(block.bytes.size());
            if (!convert) continue;
            values.resize(block.bytes.size() / element_size(block.type));
            convert_elements(block.type, block.bytes.data(), values.size(), values.data());
            sink += values[values.size() / 2];
          }
    }
  if (sink == 1e300) std::puts("");  // keeps the conversion
  return bytes;
}

void report(const std::string& path, const std::string& name, std::ofstream& json) {
  read_all(ActivationFile(path), 1, 1, false);  // into the page cache; closed, or its chunks stay cached too
  std::printf("%-28s", name.c_str());
  std::vector<double> rates;
  for (const auto& [stride, convert] : {std::pair{1, false}, {1, true}, {20, true}}) {
    double best = 1e300, bytes = 0;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const ActivationFile fresh(path);  // an empty chunk cache
      const double start = seconds();
      bytes = read_all(fresh, 1, stride, convert);
      best = std::min(best, seconds() - start);
    }
    rates.push_back(bytes / best * 1e-9);
    std::printf("  %9.3f", rates.back());
  }
  std::printf("\n");
  std::fflush(stdout);
  if (json.is_open())
    json << nlohmann::ordered_json{{"kind", "read"},
                                   {"storage", name},
                                   {"raw", rates[0]},
                                   {"converted", rates[1]},
                                   {"one_in_20", rates[2]}}
                .dump()
         << std::endl;
}

void write(const std::string& path, const CacheStorage& storage) {
  ModelHeader model;
  model.name = "read benchmark";
  model.num_layers = 24;
  model.num_query_heads = 24;
  model.num_kv_heads = 24;
  model.head_dim = 128;
  TaskHeader task;
  task.name = "read";
  task.examples = 6;
  task.query_slots = task.key_slots = 128;
  task.query_heads = task.kv_heads = 24;
  task.head_dim = 128;
  for (int l = 0; l < 24; ++l) task.layers.push_back(l);
  CacheWriter writer(path, model);
  writer.begin_task(task, storage);
  ExampleSlots slots;
  for (std::int64_t i = 0; i < 128; ++i) {
    slots.query_position.push_back(4000 + i);
    slots.key_position.push_back(10 * i);
  }
  // Sums of four uniform values: as incompressible as a normal variable's mantissa.
  std::vector<double> values(std::size_t{24} * 24 * 128 * 128);
  std::uint64_t state = 1;
  for (double& value : values) {
    value = -2.0;
    for (int i = 0; i < 4; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value += static_cast<double>(state >> 40) * 0x1p-24;
    }
  }
  for (std::int64_t e = 0; e < 6; ++e) writer.put_example(e, "", 8192, slots, values, values);
  writer.close();
}

int run(int argc, char** argv) {
  bool quick = false;
  std::ofstream json;
  std::string cache;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json.open(argv[++i]);
    } else if (argv[i][0] != '-' && cache.empty()) {
      cache = argv[i];
    } else {
      std::fprintf(stderr, "usage: rope_read_bench [--quick] [--json OUT] [FILE.h5]\n");
      return 2;
    }
  }
  std::printf("GB per second of one core's time     raw  converted  1 head in 20\n");
  if (!cache.empty()) {
    report(cache, cache, json);
    return 0;
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("rope-read-bench-" + std::to_string(getpid()) + ".h5");
  const std::vector<std::pair<std::string, CacheStorage>> storages = {
      {"contiguous", {}},
      {"chunk = one head", {.chunk = {1, 1, 1, 0, 0}}},
      {"chunk = one layer", {.chunk = {1, 1, 0, 0, 0}}},
      {"chunk = one example", {.chunk = {1, 0, 0, 0, 0}}},
      {"one layer, lzf + shuffle", {.chunk = {1, 1, 0, 0, 0}, .shuffle = true, .lzf = true}},
      {"one example, gzip 1", {.chunk = {1, 0, 0, 0, 0}, .gzip = 1}},
      {"one head, gzip 4 + shuffle", {.chunk = {1, 1, 1, 0, 0}, .gzip = 4, .shuffle = true}}};
  for (std::size_t i = 0; i < (quick ? 2 : storages.size()); ++i) {
    write(path.string(), storages[i].second);
    report(path.string(), storages[i].first, json);
    std::filesystem::remove(path);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rope_read_bench: error: %s\n", error.what());
    return 1;
  }
}
