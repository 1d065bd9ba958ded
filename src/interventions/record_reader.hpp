#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interventions/record_fields.hpp"
#include "interventions/record_table.hpp"

namespace rope {

/// A file of records, and the candidate that all of them are of where the file does not say (CANDIDATE=FILE).
struct RecordFile {
  std::string path;
  std::string candidate;  ///< empty: the file says, or RecordOptions::candidate
};

/// "CANDIDATE=FILE" or "FILE". A file that exists under the whole name is a FILE. Throws UserError (usage)
/// for an empty part.
RecordFile parse_record_file(const std::string& argument);

/// What was found in a file.
struct RecordFileSummary {
  std::string format;        ///< "csv", "jsonl", "lm-eval"
  std::string metric;        ///< of lm-eval samples: the one that was read
  std::int64_t records = 0;  ///< that were taken
};

struct Records {
  RecordTable table;
  std::vector<RecordFileSummary> files;
  UsedOptions used;
};

/// Reads accuracy records (docs/outcomes.md): CSV with a header, JSON lines, or samples of
/// lm-evaluation-harness. Treats the files as hostile: every error is a UserError that names file, line and
/// column. Memory grows with the number of records, not with the size of the files.
Records read_records(const std::vector<RecordFile>& files, const RecordOptions& options);

/// TASK of "…/samples_TASK_DATE.jsonl", as lm-evaluation-harness names its files (the date may be missing);
/// empty where the name is another.
std::string task_of_sample_file(const std::string& path);

}  // namespace rope
