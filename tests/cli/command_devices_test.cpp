#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/backend.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"

TEST_SUITE_BEGIN("cli");

using namespace rope::test;
using nlohmann::json;

TEST_CASE("devices prints JSON that follows its schema and says what the backends say") {
  const ProgramResult result = run_program({"devices", "--json", "--threads", "3"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const json document = json::parse(result.out);
  check_schema("devices", document);
  CHECK(document["tool_version"] == ROPE_PROFILER_VERSION);
  CHECK(document["threads"]["used"] == 3);
  CHECK(document["simd"]["used"] == rope::spectral::simd_in_use());
  CHECK(document["simd"]["available"] == rope::spectral::simd_available());
  const auto backends = rope::spectral::list_backends();
  REQUIRE(document["backends"].size() == backends.size());
  for (std::size_t i = 0; i < backends.size(); ++i) {
    CHECK(document["backends"][i]["name"] == backends[i].name);
    CHECK(document["backends"][i]["usable"] == backends[i].usable);
    CHECK(document["backends"][i]["devices"].size() == backends[i].devices.size());
    // What cannot be used says why.
    CHECK(document["backends"][i]["reason"].is_null() == backends[i].usable);
  }
}

TEST_CASE("the schema refuses a document that lacks something") {
  json document = json::parse(run_program({"devices", "--json"}).out);
  document["backends"][0].erase("reason");
  CHECK(!schema_violations("devices", document).empty());
  document = json::parse(run_program({"devices", "--json"}).out);
  document["threads"]["used"] = 0;
  CHECK(!schema_violations("devices", document).empty());
}

TEST_CASE("devices prints a table with every backend, and obeys the environment") {
  const std::string table = run_program({"devices"}).out;
  CHECK(table.rfind("backend  device  name", 0) == 0);
  for (const auto& backend : rope::spectral::list_backends())
    CHECK(table.find("\n" + backend.name + " ") != std::string::npos);
  for (const std::string& target : rope::spectral::simd_available()) {
    BinaryOptions options;
    options.environment = {"ROPE_PROFILER_SIMD=" + target};
    CHECK(run_binary({"devices"}, options).out.find("SIMD     " + target + " in use") != std::string::npos);
  }
  BinaryOptions options;
  options.environment = {"OMP_NUM_THREADS=1"};
  CHECK(run_binary({"devices"}, options).out.find("threads  1 in use") != std::string::npos);
}

TEST_SUITE_END();
