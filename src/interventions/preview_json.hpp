#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "interventions/preview_row.hpp"
#include "profiler/json_document.hpp"

namespace rope {

/// Member `preview` of a task of plan.json: one object per row, null for NaN.
nlohmann::ordered_json preview_rows_json(const std::vector<PreviewRow>& rows);
/// Member `preview` of plan.json.
nlohmann::ordered_json preview_facts_json(const PreviewFacts& facts);

/// Read them back; `json` lies at `place` of the document. Throw UserError naming file and JSON path.
std::vector<PreviewRow> read_preview_rows(const JsonDocument& document, const JsonDocument::Json& json,
                                          const std::string& place);
PreviewFacts read_preview_facts(const JsonDocument& document, const JsonDocument::Json& json,
                                const std::string& place);

}  // namespace rope
