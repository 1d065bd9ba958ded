// rope_bench: see README.md in this folder.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "baselines.hpp"
#include "rope_bench.hpp"
#include "spectral/simd_targets.hpp"

namespace {

using namespace rope::bench;

/// OpenBLAS chooses its kernels while it is loaded, and old ones do not know new processors: set in the
/// environment, then start again.
void choose_openblas_kernels(char** argv, const Machine& machine) {
  if (!GemmPasses::available() || !machine.avx512 || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  execv("/proc/self/exe", argv);  // where that fails, the timing of OpenBLAS is what it is
}

void add_baselines(Session& session, const std::vector<std::string>& baselines) {
  for (const std::string& baseline : baselines) {
    const std::size_t equals = baseline.find('=');
    if (equals == std::string::npos) throw std::runtime_error("--baseline: expected NAME=COMMAND");
    session.coprocesses.emplace_back(baseline.substr(0, equals),
                                     std::make_unique<Coprocess>(baseline.substr(equals + 1)));
  }
}

void print_machine(Session& session) {
  const std::string simd = rope::spectral::simd_in_use();
  const Limit limit = sweep_limit(session.machine, simd, 64);
  std::printf("%s (%s family %d model %d), SIMD target %s\n", session.machine.processor.c_str(),
              session.machine.vendor.c_str(), session.machine.family, session.machine.model, simd.c_str());
  std::printf("multiply-add peak of one thread: float32 %.1f G/s, float64 %.1f G/s\n", session.peak32,
              session.peak64);
  if (limit.operations > 0)
    std::printf("limit for %s at h = 64: %s, %.1f operations per pair-distance = %.3f ns here\n",
                kTogether.name, limit.name.c_str(), limit.operations, limit.operations / session.peak32);
  std::printf("OpenBLAS: %s\n", GemmPasses::available() ? GemmPasses::description().c_str() : "not built in");
  session.record({{"kind", "machine"},
                  {"processor", session.machine.processor},
                  {"vendor", session.machine.vendor},
                  {"family", session.machine.family},
                  {"model", session.machine.model},
                  {"simd", simd},
                  {"peak32", session.peak32},
                  {"peak64", session.peak64},
                  {"limit", limit.name},
                  {"limit_operations", limit.operations},
                  {"openblas", GemmPasses::description()}});
}

int run(int argc, char** argv) {
  Session session;
  bool smoke = false;
  std::string json;
  std::vector<std::string> baselines, parts;
  CLI::App app("Times the sweep and the moments on this machine, against its limits and other ways.");
  app.add_flag("--quick", session.quick, "fewer rows and rounds");
  app.add_flag("--smoke", smoke, "only check that the baselines compute the same as the sweep");
  app.add_option("--rounds", session.rounds, "alternations; the best of each counts")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", json, "also write JSON lines")->type_name("FILE");
  app.add_option("--baseline", baselines, "a program that answers questions (numpy_baseline.py --serve)")
      ->type_name("NAME=COMMAND")
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--parts", parts,
                 "sweeps, targets, threads, growth, grids, sizes, moments, memory; all unless given")
      ->delimiter(',')
      ->check(
          CLI::IsMember({"sweeps", "targets", "threads", "growth", "grids", "sizes", "moments", "memory"}));
  CLI11_PARSE(app, argc, argv);
  if (session.quick && app.count("--rounds") == 0) session.rounds = 3;
  if (!json.empty()) {
    session.json.open(json);
    if (!session.json) throw std::runtime_error("cannot write " + json);
  }
  add_baselines(session, baselines);
  check_baselines(session);
  if (smoke) {
    std::printf("the baselines agree with the sweep\n");
    return 0;
  }
  session.renew_peaks();
  print_machine(session);
  const std::pair<const char*, void (*)(Session&)> all[] = {
      {"sweeps", bench_sweeps},   {"targets", bench_targets}, {"threads", bench_threads},
      {"growth", bench_scaling},  {"grids", bench_grids},     {"sizes", bench_sizes},
      {"moments", bench_moments}, {"memory", bench_memory}};
  for (const auto& [name, part] : all)
    if (parts.empty() || std::find(parts.begin(), parts.end(), name) != parts.end()) part(session);
  session.record({{"kind", "peaks"}, {"peak32", session.peak32}, {"peak64", session.peak64}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::strcmp(argv[1], "--memory-case") == 0) return memory_case(argc, argv);
    choose_openblas_kernels(argv, this_machine());
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rope_bench: error: %s\n", error.what());
    return 1;
  }
}
