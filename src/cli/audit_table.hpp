#pragma once

#include <string>

#include "cli/console.hpp"
#include "profiler/audit.hpp"

namespace rope::cli {

/// Which rows the table has besides the sums over all pairs.
enum class AuditRows { kNone, kLayers, kHeads };

/// What `audit` prints. title: the model and what was walked over.
void print_audit(Console& console, const AuditResult& result, const std::string& title, AuditRows rows);

/// The columns of `audit --bins`, a row per bin.
void write_share_bins(const AuditResult& result, std::ostream& out);

/// Says what is broken, if anything: the exit code, 1 where an inequality is.
int audit_verdict(Console& console, const AuditResult& result);

}  // namespace rope::cli
