#pragma once

#include <string>

#include "interventions/record_reader.hpp"

namespace rope::detail {

/// What a file's records take where they do not say.
struct StandIns {
  std::string task, candidate;
  std::uint8_t stage = 0;
};
/// Notes in `used` which options are needed: those of parts that the file does not have.
StandIns stand_ins_of(const RecordFile& file, const RecordOptions& options, bool has_task, bool has_candidate,
                      bool has_stage, UsedOptions& used);

/// Refuses a file that names its candidates and is also given one, and a file that does neither.
void require_one_candidate(const RecordFile& file, const RecordOptions& options, bool has_candidate,
                           const std::string& where);

/// Reads JSON lines: records, or samples of lm-evaluation-harness where the first line has a `doc_id` and not
/// the example column.
void read_json_lines(const RecordFile& file, const RecordOptions& options, Records& records);

}  // namespace rope::detail
