// Threads, growth with the sizes, moments, working memory.
#include <omp.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "rope_bench.hpp"
#include "spectral/window_moments.hpp"

namespace rope::bench {

using namespace rope::spectral;

namespace {

/// A number of /proc/self/status, in bytes.
double status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return 1024 * std::atof(line.c_str() + key.size() + 1);
  throw std::runtime_error("/proc/self/status has no " + key);
}

void print_growth(Session& session, const char* what, const std::vector<double>& sizes,
                  const std::vector<double>& costs) {
  const double exponent = fitted_exponent(sizes, costs);
  std::printf("%-8s", what);
  for (std::size_t i = 0; i < sizes.size(); ++i) std::printf("  %.0f: %.3g ms", sizes[i], costs[i] * 1e-6);
  std::printf("  -> exponent %.3f\n", exponent);
  session.record(
      {{"kind", "growth"}, {"with", what}, {"sizes", sizes}, {"ns", costs}, {"exponent", exponent}});
}

}  // namespace

void bench_threads(Session& session) {
  std::printf("\nthreads (%s, h = 64, M = 32768, 1920 pairs; time of day, alternated)\n", kTogether.name);
  const SweepPlan plan(geometric_grid(64), 32768);
  const CoefficientBatch batch = random_batch(64, 1920);
  SweepResult result;
  std::vector<double> counts, best;
  for (int threads = 1; threads <= omp_get_num_procs(); threads *= 2) counts.push_back(threads);
  best.assign(counts.size(), HUGE_VAL);
  for (int round = 0; round < 2 * session.rounds; ++round)
    for (std::size_t i = 0; i < counts.size(); ++i) {
      omp_set_num_threads(static_cast<int>(counts[i]));
      best[i] = std::min(
          best[i], elapsed_ns(Clock::kWall, [&] { sweep_cpu(plan, batch, kTogether.request, result); }));
    }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::printf("%3.0f threads: %8.2f ms, %.3f times one\n", counts[i], best[i] * 1e-6, best[0] / best[i]);
    session.record(
        {{"kind", "threads"}, {"threads", counts[i]}, {"ns", best[i]}, {"speedup", best[0] / best[i]}});
  }
  if (counts.size() > 1) print_growth(session, "threads", counts, best);
}

void bench_scaling(Session& session) {
  omp_set_num_threads(1);
  std::printf("\ngrowth of the cost (%s, h = 64, one thread)\n", kTogether.name);
  const std::vector<double> omega = geometric_grid(64);
  std::vector<double> sizes, costs;
  for (std::int64_t window = 2048; window <= (session.quick ? 131072 : 1 << 20); window *= 4) {
    sizes.push_back(static_cast<double>(window));
    costs.push_back(sweep_ns(omega, window, 96, kTogether.request, session.rounds) * 96 * sizes.back());
  }
  print_growth(session, "M", sizes, costs);
  sizes.clear();
  costs.clear();
  for (std::size_t pairs = 96; pairs <= (session.quick ? 1536u : 24576u); pairs *= 4) {
    sizes.push_back(static_cast<double>(pairs));
    costs.push_back(sweep_ns(omega, 8192, pairs, kTogether.request, session.rounds) * 8192 * sizes.back());
  }
  print_growth(session, "pairs", sizes, costs);
  std::printf("few pairs, M = 32768, ns per pair-distance:");
  for (const std::size_t pairs : {1, 4, 16, 64, 480}) {
    const double ns = sweep_ns(omega, 32768, pairs, kTogether.request, session.rounds);
    std::printf("  %zu: %.3f", pairs, ns);
    session.record({{"kind", "few_pairs"}, {"pairs", pairs}, {"ns", ns}});
  }
  std::printf("\n");
}

void bench_grids(Session& session) {
  omp_set_num_threads(1);
  constexpr std::int64_t kWindow = 32768;
  std::printf(
      "\nother grids (h = 64, M = %lld, %s, one thread), and the set-up of plans\n%-23s %8s %9s %9s\n",
      static_cast<long long>(kWindow), kTogether.name, "grid", "ns", "plan ms", "next ms");
  std::vector<double> even(64), slow = geometric_grid(64, 1e4);
  for (std::size_t n = 0; n < even.size(); ++n) even[n] = 3.0 * static_cast<double>(n + 1) / 64;
  for (double& omega : slow) omega *= 1e-3;
  const CoefficientBatch few = random_batch(64, 48);
  const std::pair<const char*, std::vector<double>> grids[] = {
      {"base 1e4", geometric_grid(64, 1e4)}, {"base 5e5", geometric_grid(64, 5e5)},
      {"base 1e6", geometric_grid(64)},      {"base 1e7", geometric_grid(64, 1e7)},
      {"slow only, 1e-3 to 1e-7", slow},     {"even spacing up to 3", even}};
  for (const auto& [name, omega] : grids) {
    const double ns = sweep_ns(omega, kWindow, 480, kTogether.request, session.rounds);
    // A grid that was never seen, then one more window of it.
    double first = HUGE_VAL, next = HUGE_VAL;
    for (int round = 0; round < session.rounds; ++round) {
      std::vector<double> fresh = omega;
      for (double& w : fresh) w *= 1 - 1e-9 * (round + 1);
      const auto basis = std::make_shared<SweepBasis>(fresh);
      const auto add = [&](std::int64_t window) {  // tables may be made when first used
        SweepResult result;
        const double all = elapsed_ns(
            Clock::kProcessor, [&] { sweep_cpu(SweepPlan(basis, window), few, kTogether.request, result); });
        return all - best_ns(3, Clock::kProcessor,
                             [&] { sweep_cpu(SweepPlan(basis, window), few, kTogether.request, result); });
      };
      first = std::min(first, add(kWindow));
      next = std::min(next, add(kWindow + 1000));
    }
    std::printf("%-23s %8.3f %9.3f %9.3f\n", name, ns, first * 1e-6, next * 1e-6);
    session.record({{"kind", "grid"},
                    {"grid", name},
                    {"ns", ns},
                    {"plan_ms", first * 1e-6},
                    {"next_plan_ms", next * 1e-6}});
  }
}

void bench_sizes(Session& session) {
  omp_set_num_threads(1);
  std::printf("\nshort windows (%s, one thread, 960 pairs): ns by M\n  h ", kTogether.name);
  const std::int64_t windows[] = {128, 256, 512, 1024, 2048, 4096};
  for (const std::int64_t window : windows) std::printf(" %8lld", static_cast<long long>(window));
  std::printf("\n");
  for (const std::size_t h : {32, 64, 128}) {
    std::vector<double> costs;
    std::printf("%4zu", h);
    for (const std::int64_t window : windows) {
      costs.push_back(sweep_ns(geometric_grid(h), window, 960, kTogether.request, 2 * session.rounds));
      std::printf(" %8.3f", costs.back());
    }
    std::printf("\n");
    session.record({{"kind", "short"}, {"h", h}, {"windows", windows}, {"ns", costs}});
  }
  const double norms[] = {1, 4, 8, 12, 16, 24};
  std::printf("\nlarge scores (M = 8192, %s, one thread): ns by U, root mean square over pairs\n  h ",
              kTogether.name);
  for (const double norm : norms) std::printf(" %8.0f", norm);
  std::printf("\n");
  for (const std::size_t h : {32, 64, 128}) {
    const SweepPlan plan(geometric_grid(h), 8192);
    std::vector<double> costs;
    std::printf("%4zu", h);
    for (const double norm : norms) {
      const CoefficientBatch batch = random_batch(h, 480, norm);
      SweepResult result;
      costs.push_back(best_ns(session.rounds, Clock::kProcessor,
                              [&] { sweep_cpu(plan, batch, kTogether.request, result); }) /
                      (480.0 * 8192));
      std::printf(" %8.3f", costs.back());
    }
    std::printf("\n");
    session.record({{"kind", "sizes"}, {"h", h}, {"norms", norms}, {"ns", costs}});
  }
}

void bench_moments(Session& session) {
  omp_set_num_threads(1);
  constexpr std::size_t kMargins = 4096;
  std::printf(
      "\nmoments, float64, one thread: ns per margin, share of the float64 peak (nominal h x rank)\n");
  std::printf("%4s %7s %9s %8s %9s %6s", "h", "M", "ns/margin", "of peak", "build us", "rank");
  for (const auto& program : session.coprocesses) std::printf(" %10s", program.first.c_str());
  std::printf("\n");
  for (const std::size_t h : {32, 64, 128}) {
    const std::vector<double> omega = geometric_grid(h);
    const CoefficientBatch batch = random_batch(h, kMargins);
    std::vector<double> mean(kMargins), variance(kMargins);
    for (const std::int64_t window : {8192, 32768, 131072}) {
      if (session.quick && (h != 64 || window == 131072)) continue;
      session.renew_peaks();
      const double build =
          best_ns(session.rounds, Clock::kProcessor, [&] { const WindowMoments moments(omega, window); });
      const WindowMoments moments(omega, window);
      double ns = HUGE_VAL;
      std::vector<double> others(session.coprocesses.size(), HUGE_VAL);
      const std::string ask =
          nlohmann::json{{"work", "moments"}, {"h", h}, {"window", window}, {"pairs", kMargins}}.dump();
      for (int round = 0; round < session.rounds; ++round) {
        ns = std::min(ns, elapsed_ns(Clock::kProcessor, [&] { moments.evaluate(batch, mean, variance); }));
        for (std::size_t i = 0; i < others.size(); ++i) {
          const auto answer = nlohmann::json::parse(session.coprocesses[i].second->ask(ask)).at("ns");
          if (answer.is_number()) others[i] = std::min(others[i], answer.get<double>());
        }
      }
      ns /= kMargins;
      const double share = static_cast<double>(h) * moments.rank() / (ns * session.peak64);
      std::printf("%4zu %7lld %9.1f %7.1f%% %9.0f %6d", h, static_cast<long long>(window), ns, 100 * share,
                  build / 1000, moments.rank());
      nlohmann::ordered_json record = {{"kind", "moments"},     {"h", h},
                                       {"window", window},      {"ns", ns},
                                       {"share", share},        {"build_us", build / 1000},
                                       {"rank", moments.rank()}};
      for (std::size_t i = 0; i < others.size(); ++i) {
        if (!std::isfinite(others[i])) {  // has no moments
          std::printf(" %10s", "-");
          continue;
        }
        std::printf(" %9.1fx", others[i] / ns);
        record["baselines"][session.coprocesses[i].first] = others[i];
      }
      std::printf("\n");
      session.record(record);
    }
  }
}

void bench_memory(Session& session) {
  std::printf("\nworking memory of a sweep beyond its inputs and outputs, with its plan (h = 64, %s)\n",
              kTogether.name);
  struct Case {
    std::int64_t window;
    int pairs, threads;
  };
  const int threads = omp_get_num_procs();
  std::vector<Case> cases = {{8192, 480, 1}, {8192, 19200, threads}, {131072, 1920, threads}};
  if (!session.quick) cases.push_back({1 << 24, 96, threads});
  for (const Case& c : cases) {
    Coprocess child("/proc/" + std::to_string(getpid()) + "/exe --memory-case " + std::to_string(c.window) +
                    " " + std::to_string(c.pairs) + " " + std::to_string(c.threads));
    const double bytes = std::stod(child.ask(""));
    std::printf("M %9lld, %6d pairs, %2d threads: %7.2f MB\n", static_cast<long long>(c.window), c.pairs,
                c.threads, bytes * 1e-6);
    session.record({{"kind", "memory"},
                    {"window", c.window},
                    {"pairs", c.pairs},
                    {"threads", c.threads},
                    {"bytes", bytes}});
  }
}

int memory_case(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::int64_t window = std::atoll(argv[2]);
  const std::vector<double> omega = geometric_grid(64);
  const CoefficientBatch batch = random_batch(64, std::strtoull(argv[3], nullptr, 10));
  omp_set_num_threads(std::atoi(argv[4]));
  SweepResult result;
  const double outputs = 3.0 * sizeof(double) * static_cast<double>(batch.n_pairs);
  const double before = status_bytes("VmRSS");
  {
    const SweepPlan plan(omega, window);
    sweep_cpu(plan, batch, kTogether.request, result);
  }
  std::printf("%.0f\n", std::max(0.0, status_bytes("VmHWM") - before - outputs));
  return 0;
}

}  // namespace rope::bench
