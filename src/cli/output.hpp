#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <memory>
#include <string>

#include "cli/console.hpp"

namespace rope::cli {

/// Values of `-o/--output` and `--force`.
struct OutputOptions {
  std::string path;  ///< empty = not given, "-" = standard output
  bool force = false;
};

/// Adds `-o, --output FILE` and `--force`. `what` completes "FILE for ..."; `required`: there is no default.
void add_output_options(CLI::App& app, OutputOptions& options, const std::string& what,
                        bool required = false);
/// Adds `--json`.
void add_json_option(CLI::App& app, bool& json);

/// Where a result goes: a file that appears whole or not at all, or standard output (path "" or "-").
class Output {
 public:
  enum class Content { kText, kBinary };
  /// Fails at once (UserError) when the file cannot be written or exists without `--force`, and when binary
  /// content would go to a terminal.
  Output(Console& console, const OutputOptions& options, Content content = Content::kText);
  ~Output();

  bool to_standard_output() const;
  std::ostream& stream();  ///< failures throw; flushed by commit()
  /// Appends the bytes of a finished file, e.g. an HDF5 file made aside.
  void append_file(const std::string& path);
  /// Puts the file in place; for standard output, flushes.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope::cli
