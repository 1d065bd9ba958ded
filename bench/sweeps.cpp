// The sweep against the machine's limits and against other ways to compute the same, all alternated in one
// run.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>

#include "baselines.hpp"
#include "fma_peak.hpp"
#include "rope_bench.hpp"
#include "spectral/simd_targets.hpp"

namespace rope::bench {

using namespace rope::spectral;

namespace {

constexpr std::size_t kPairs = 480;
constexpr std::size_t kScoreBudget = std::size_t{16} << 20;  // floats that the whole-S baseline may hold

std::size_t gemm_pairs(std::int64_t window) {
  const std::size_t most = kScoreBudget / static_cast<std::size_t>(window) / 32 * 32;
  return std::clamp<std::size_t>(most, 32, kPairs);
}

/// One pair of the batch in float32, for the plain loop.
struct PlainPair {
  std::vector<float> omega, re, im;
  PlainPair(const std::vector<double>& grid, const CoefficientBatch& batch) {
    for (std::size_t n = 0; n < grid.size(); ++n) {
      omega.push_back(static_cast<float>(grid[n]));
      re.push_back(static_cast<float>(batch.re[n * batch.stride]));
      im.push_back(static_cast<float>(batch.im[n * batch.stride]));
    }
  }
};

/// Best of as many runs as 10 ms hold: a sweep of few pairs would else be timed with the caches that the
/// contender before has left.
template <class Run>
double sample_ns(const Run& run) {
  double best = elapsed_ns(Clock::kProcessor, run), spent = best;
  while (spent < 1e7) {
    const double ns = elapsed_ns(Clock::kProcessor, run);
    best = std::min(best, ns);
    spent += ns;
  }
  return best;
}

struct Contender {
  std::string name;
  std::function<double()> run;  // nanoseconds per pair-distance of one run
  double best = HUGE_VAL;
};

std::string question(std::size_t h, std::int64_t window, std::size_t pairs, const SweepRequest& request) {
  return nlohmann::json{{"work", "sweep"},
                        {"h", h},
                        {"window", window},
                        {"pairs", pairs},
                        {"mean", request.mean_response},
                        {"max", request.response_max},
                        {"length", request.effective_length},
                        {"reversals", request.reversals}}
      .dump();
}

bool baselines_know(const SweepRequest& request) {
  return !request.aliasing && request.softcap == 0 && request.logit_scales.empty();
}

/// Columns of the table: every baseline of this session, whether a row has it or not.
std::vector<std::string> columns(const Session& session) {
  std::vector<std::string> names = {"sincosf"};
  if (GemmPasses::available()) names.emplace_back("OpenBLAS");
  for (const auto& program : session.coprocesses) names.push_back(program.first);
  return names;
}

void print_heading(const Session& session) {
  std::printf(
      "\nsweep, one thread: nanoseconds per pair-distance (ns), share of the machine's limit, nominal 2h\n"
      "multiply-adds against the float32 peak, and how many times slower others are\n");
  std::printf("%-15s %4s %7s %8s %7s %8s", "outputs", "h", "M", "ns", "limit", "nominal");
  for (const std::string& name : columns(session)) std::printf(" %10s", name.c_str());
  std::printf("\n");
}

std::vector<Contender> contenders_for(Session& session, const std::vector<double>& omega, std::int64_t window,
                                      const Output& output, const CoefficientBatch& batch,
                                      const SweepPlan& plan, const PlainPair& pair, GemmPasses* gemm) {
  const double positions = static_cast<double>(window);
  std::vector<Contender> list;
  list.push_back({"sweep", [&batch, &plan, &output, positions] {
                    SweepResult result;
                    const double ns = sample_ns([&] { sweep_cpu(plan, batch, output.request, result); });
                    return ns / (positions * static_cast<double>(batch.n_pairs));
                  }});
  if (!baselines_know(output.request)) return list;
  if (!output.request.reversals) {
    list.push_back({"sincosf", [&pair, &output, window, positions] {
                      volatile double sink = 0;
                      return sample_ns([&] {
                               const PairResult r =
                                   plain_loop(pair.omega, pair.re, pair.im, window, output.request);
                               sink = r.mean + r.effective_length;
                             }) /
                             positions;
                    }});
    if (gemm != nullptr)
      list.push_back({"OpenBLAS", [gemm, &output, positions] {
                        return sample_ns([&] { gemm->run(output.request); }) /
                               (positions * static_cast<double>(gemm->pairs()));
                      }});
  }
  for (auto& [name, program] : session.coprocesses) {
    const std::string ask = question(omega.size(), window, gemm_pairs(window), output.request);
    list.push_back({name, [&program = *program, ask] {
                      return nlohmann::json::parse(program.ask(ask)).at("ns").get<double>();
                    }});
  }
  return list;
}

void row(Session& session, const Output& output, std::size_t h, std::int64_t window,
         const std::vector<Contender>& contenders) {
  const double ns = contenders[0].best;
  const Limit limit = sweep_limit(session.machine, simd_in_use(), h);
  const bool together = &output == &kOutputs[0] && limit.operations > 0;
  const double share = together ? limit.operations / (ns * session.peak32) : 0;
  const double nominal = 2.0 * static_cast<double>(h) / (ns * session.peak32);
  std::printf("%-15s %4zu %7lld %8.3f", output.name, h, static_cast<long long>(window), ns);
  if (together)
    std::printf(" %6.1f%%", 100 * share);
  else
    std::printf(" %7s", "-");
  std::printf(" %7.0f%%", 100 * nominal);
  nlohmann::ordered_json record = {{"kind", "sweep"}, {"outputs", output.name},  {"h", h}, {"window", window},
                                   {"ns", ns},        {"nominal_share", nominal}};
  if (together) record["limit_share"] = share;
  for (const std::string& name : columns(session)) {
    const auto found = std::find_if(contenders.begin(), contenders.end(),
                                    [&](const Contender& c) { return c.name == name; });
    if (found == contenders.end()) {
      std::printf(" %10s", "-");
      continue;
    }
    std::printf(" %9.1fx", found->best / ns);
    record["baselines"][name] = found->best;
  }
  std::printf("\n");
  std::fflush(stdout);
  session.record(record);
}

}  // namespace

void Session::renew_peaks() {
  peak32 = std::max(peak32, fma_peak_float32());
  peak64 = std::max(peak64, fma_peak_float64());
}

std::vector<double> geometric_grid(std::size_t h, double base) {
  std::vector<double> omega(h);
  for (std::size_t n = 0; n < h; ++n)
    omega[n] = std::pow(base, -static_cast<double>(n) / static_cast<double>(h));
  return omega;
}

CoefficientBatch random_batch(std::size_t h, std::size_t pairs, double norm) {
  std::mt19937_64 random(1);
  const double range = norm / std::sqrt(2.0 * static_cast<double>(h) / 3.0);
  const auto uniform = [&] {
    return range * static_cast<double>(static_cast<std::int64_t>(random()) >> 11) * 0x1p-52;
  };
  CoefficientBatch batch;
  batch.reset(h, pairs);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t p = 0; p < pairs; ++p) {
      batch.re[n * batch.stride + p] = uniform();
      batch.im[n * batch.stride + p] = uniform();
    }
  }
  return batch;
}

double sweep_ns(const std::vector<double>& omega, std::int64_t window, std::size_t pairs,
                const SweepRequest& request, int repeats, Clock clock) {
  const SweepPlan plan(omega, window);
  const CoefficientBatch batch = random_batch(omega.size(), pairs);
  SweepResult result;
  return best_ns(repeats, clock, [&] { sweep_cpu(plan, batch, request, result); }) /
         (static_cast<double>(pairs) * static_cast<double>(window));
}

void bench_sweeps(Session& session) {
  omp_set_num_threads(1);
  print_heading(session);
  for (const std::size_t h : {64, 32, 128}) {
    if (session.quick && h != 64) continue;
    const std::vector<double> omega = geometric_grid(h);
    const CoefficientBatch batch = random_batch(h, kPairs);
    const PlainPair pair(omega, batch);
    for (const std::int64_t window : {8192, 32768, 131072}) {
      if (session.quick && window == 131072) continue;
      session.renew_peaks();
      const SweepPlan plan(omega, window);
      std::unique_ptr<GemmPasses> gemm;
      if (GemmPasses::available())
        gemm = std::make_unique<GemmPasses>(omega, window, batch, gemm_pairs(window));
      for (const Output& output : kOutputs) {
        const bool everywhere = &output == &kOutputs[0];
        if (!everywhere && (session.quick || !baselines_know(output.request)) && window != 8192) continue;
        if (!everywhere && h != 64 && !baselines_know(output.request)) continue;
        std::vector<Contender> list =
            contenders_for(session, omega, window, output, batch, plan, pair, gemm.get());
        for (int round = 0; round < session.rounds; ++round)
          for (Contender& contender : list) contender.best = std::min(contender.best, contender.run());
        row(session, output, h, window, list);
      }
    }
  }
}

void bench_targets(Session& session) {
  omp_set_num_threads(1);
  const std::vector<double> omega = geometric_grid(64);
  const std::string best = simd_in_use();
  std::printf("\nlower instruction sets (%s, h = 64, M = 8192, one thread)\n%-9s %8s %11s %11s %9s\n",
              kTogether.name, "target", "ns", "peak f32", "peak f64", "nominal");
  for (const std::string& target : simd_available()) {
    if (session.quick && target != best && target != "AVX2") continue;
    select_simd(target);
    const double peak = fma_peak_float32(), peak64 = fma_peak_float64();
    const double ns = sweep_ns(omega, 8192, kPairs, kTogether.request, session.rounds);
    const double nominal = 128 / (ns * peak);
    std::printf("%-9s %8.3f %7.1f G/s %7.1f G/s %8.0f%%\n", target.c_str(), ns, peak, peak64, 100 * nominal);
    session.record({{"kind", "target"},
                    {"target", target},
                    {"ns", ns},
                    {"peak32", peak},
                    {"peak64", peak64},
                    {"nominal_share", nominal}});
  }
  select_simd(best);
}

void check_baselines(Session& session) {
  const std::vector<double> omega = geometric_grid(64);
  constexpr std::int64_t kWindow = 1000;
  const CoefficientBatch batch = random_batch(omega.size(), 40);
  SweepResult ours;
  sweep_cpu(SweepPlan(omega, kWindow), batch, kTogether.request, ours);
  const auto require = [](const char* what, double found, double expected) {
    if (!(std::abs(found - expected) <= 2e-4 * std::abs(expected)))
      throw std::runtime_error(std::string(what) + " gives " + std::to_string(found) + ", the sweep " +
                               std::to_string(expected));
  };
  const auto compare = [&](const char* what, const PairResult& r, std::size_t p) {
    require(what, r.mean, ours.mean_response[p]);
    require(what, r.max, ours.response_max[p]);
    require(what, r.effective_length, ours.effective_length[p]);
  };
  const PlainPair pair(omega, batch);
  compare("the plain loop", plain_loop(pair.omega, pair.re, pair.im, kWindow, kTogether.request), 0);
  if (GemmPasses::available()) {
    GemmPasses gemm(omega, kWindow, batch, 40);
    gemm.run(kTogether.request);
    for (std::size_t p = 0; p < 40; ++p) compare("OpenBLAS with passes", gemm.results()[p], p);
  }
  for (auto& [name, program] : session.coprocesses) {
    nlohmann::json ask = {{"work", "check"}, {"omega", omega}, {"window", kWindow}};
    for (std::size_t p = 0; p < 40; ++p)
      for (std::size_t n = 0; n < omega.size(); ++n) {
        ask["re"].push_back(batch.re[n * batch.stride + p]);
        ask["im"].push_back(batch.im[n * batch.stride + p]);
      }
    const nlohmann::json answer = nlohmann::json::parse(program->ask(ask.dump()));
    for (std::size_t p = 0; p < 40; ++p)
      compare(name.c_str(), {answer.at("mean").at(p), answer.at("max").at(p), answer.at("length").at(p)}, p);
  }
}

}  // namespace rope::bench
