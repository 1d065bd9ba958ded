#include "support/schema.hpp"

#include <doctest/doctest.h>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "support/run_cli.hpp"

namespace rope::test {

std::string schema_violations(const std::string& name, const nlohmann::json& value) {
  const auto document =
      nlohmann::json::parse(read_file(std::string(ROPE_SOURCE_DIR "/schemas/") + name + ".schema.json"));
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(value), &results);
  std::string text;
  for (const auto& error : results) {
    for (const std::string& part : error.context) text += part;
    text += ": " + error.description + "\n";
  }
  return text;
}

void check_schema(const std::string& name, const nlohmann::json& value) {
  const std::string violations = schema_violations(name, value);
  CHECK_MESSAGE(violations.empty(), name, " schema: ", violations);
}

}  // namespace rope::test
