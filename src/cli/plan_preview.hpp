#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "interventions/plan.hpp"

namespace rope::cli {

/// The part of `plan` that predicts what its candidates would change.
class PlanPreview {
 public:
  void add_options(CLI::App& app);
  /// Checks what can be checked before any work. Throws UserError (usage).
  void check() const;
  bool wanted() const { return !files_.empty(); }
  std::vector<std::string> inputs() const;

  /// Fills the plan's preview; adds its warnings to the plan's.
  void run(Plan& plan, const ProfileReader& profile, Console& console, int threads) const;
  /// Predicted changes per task and candidate, and the curve of a sweep.
  void print(const Plan& plan, Console& console, std::ostream& to, bool for_err) const;

 private:
  std::vector<std::string> files_;
  std::string sweep_, config_, trust_, backend_, memory_, digest_;
  int device_ = -1;
  std::int64_t resamples_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<CLI::Option*> dependent_;  // mean nothing without --preview
};

}  // namespace rope::cli
