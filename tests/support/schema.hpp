#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rope::test {

/// Checks `value` against schemas/NAME.schema.json; every violation fails the test with its place.
void check_schema(const std::string& name, const nlohmann::json& value);

/// Every violation as one line "PLACE: WHAT"; empty when the value follows the schema.
std::string schema_violations(const std::string& name, const nlohmann::json& value);

}  // namespace rope::test
