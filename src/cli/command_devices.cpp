#include <omp.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "profiler/library_versions.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/backend.hpp"

namespace rope::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kCompiler =
#if defined(__clang__)
    "Clang " __clang_version__;
#elif defined(__GNUC__)
    "GCC " __VERSION__;
#else
    "unknown";
#endif

/// Everything that the command knows, once for table and JSON.
struct Facts {
  std::vector<spectral::BackendInfo> backends = spectral::list_backends();
  spectral::BackendChoice choice = spectral::choose_backend("auto");
  std::string simd = spectral::simd_in_use();
  std::vector<std::string> simd_available = spectral::simd_available();
  unsigned hardware_threads = std::thread::hardware_concurrency();
  std::vector<std::pair<std::string, std::string>> libraries = library_versions();
};

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json to_json(const Facts& facts, int threads) {
  ordered_json document{{"format", "rope-profiler/devices"},
                        {"format_version", 1},
                        {"tool_version", ROPE_PROFILER_VERSION},
                        {"compiler", kCompiler}};
  for (const auto& [name, version] : facts.libraries) document["libraries"][name] = version;
  document["threads"] = {{"used", threads}, {"hardware", facts.hardware_threads}};
  document["simd"] = {{"used", facts.simd}, {"available", facts.simd_available}};
  document["auto"] = {
      {"backend", facts.choice.name}, {"device", facts.choice.device}, {"reason", facts.choice.reason}};
  document["backends"] = ordered_json::array();
  for (const spectral::BackendInfo& backend : facts.backends) {
    ordered_json entry{
        {"name", backend.name}, {"usable", backend.usable}, {"reason", text_or_null(backend.reason)}};
    entry["devices"] = ordered_json::array();
    for (const spectral::DeviceInfo& device : backend.devices)
      entry["devices"].push_back(
          {{"index", device.index},
           {"name", device.name},
           {"capability", text_or_null(device.capability)},
           {"memory_bytes", device.memory_bytes > 0 ? ordered_json(device.memory_bytes) : ordered_json()},
           {"usable", device.usable},
           {"reason", text_or_null(device.reason)}});
    entry["details"] = backend.details;
    document["backends"].push_back(std::move(entry));
  }
  return document;
}

std::string memory_text(long long bytes) {
  return bytes > 0 ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1LL << 30)) : "-";
}

void add_rows(Table& table, const spectral::BackendInfo& backend) {
  const auto style = [](bool usable) { return usable ? Style::kPlain : Style::kDim; };
  if (backend.devices.empty())
    table.row({backend.name, "-", "-", "-", "-", backend.usable ? "yes" : "no", backend.reason},
              style(backend.usable));
  for (const spectral::DeviceInfo& device : backend.devices) {
    const bool usable = backend.usable && device.usable;
    table.row({backend.name, std::to_string(device.index), device.name,
               device.capability.empty() ? "-" : device.capability, memory_text(device.memory_bytes),
               usable ? "yes" : "no", device.reason.empty() ? backend.reason : device.reason},
              style(usable));
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class DevicesCommand : public Command {
 public:
  std::string name() const override { return "devices"; }
  std::string group() const override { return kMachineGroup; }
  std::string summary() const override {
    return "lists what this build and machine can compute with, and why not";
  }
  std::string details() const override {
    return "Lists every backend with its devices, and for what cannot be used the reason. `--backend auto` "
           "of the "
           "other commands takes the one named on the line `auto`. The instruction set can be chosen with "
           "the "
           "environment variable ROPE_PROFILER_SIMD, e.g. to repeat results of another machine.";
  }
  std::string example() const override { return "rope-profiler devices"; }
  void add_options(CLI::App& app) override { add_json_option(app, json_); }

  int run(Console& console, int threads) override {
    const Facts facts;
    if (json_) {
      console.out() << to_json(facts, threads).dump(2) << '\n';
      return 0;
    }
    Table table(
        {{"backend"}, {"device", true}, {"name"}, {"capability"}, {"memory", true}, {"usable"}, {"reason"}});
    for (const spectral::BackendInfo& backend : facts.backends) add_rows(table, backend);
    table.print(console, console.out());
    std::ostream& out = console.out();
    out << "\nauto     " << facts.choice.name << " " << facts.choice.device << ": "
        << printable(facts.choice.reason) << "\nSIMD     " << facts.simd
        << " in use; available: " << joined(facts.simd_available) << "\nthreads  " << threads
        << " in use; the machine has " << facts.hardware_threads << "\nversion  rope-profiler "
        << ROPE_PROFILER_VERSION << ", " << kCompiler;
    for (const auto& [name, version] : facts.libraries) out << ", " << name << " " << version;
    out << '\n';
    return 0;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_devices() { return std::make_unique<DevicesCommand>(); }

}  // namespace rope::cli
