// Tables that lie in the JSON of a command, read with care.

#include "profiler/json_tables.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "profiler/error.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const JsonTable kTable{"rope-profiler/test",
                       "test",
                       "rows",
                       "/part/rows",
                       {{"name", CellType::kText},
                        {"count", CellType::kInteger},
                        {"maybe", CellType::kInteger, true},
                        {"value", CellType::kReal},
                        {"holds", CellType::kBool}}};
const JsonTable kLists{
    "rope-profiler/test",
    "test",
    "lists",
    "/lists",
    {{"name", CellType::kText}, {"x", CellType::kReal, false, true}, {"n", CellType::kInteger, false, true}}};

std::string csv(const JsonTable& table, const std::string& body) {
  TempDir folder;
  std::ofstream(folder / "r.json") << R"({"format":"rope-profiler/test","format_version":1,)" << body << "}";
  std::ostringstream out;
  write_table(json_table(std::make_shared<const JsonDocument>(folder / "r.json", "test"), table),
              TableFormat::kCsv, out);
  return out.str();
}

std::string failure(const JsonTable& table, const std::string& body) {
  try {
    csv(table, body);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string rows(const std::string& row) { return R"("part":{"rows":[)" + row + "]}"; }

}  // namespace

TEST_SUITE("json_tables") {
  TEST_CASE("members become columns, null an empty field") {
    const std::string good = R"({"name":"a,b","count":3,"maybe":null,"value":0.1,"holds":true,"more":[1]})";
    CHECK(csv(kTable, rows(good)) == "name,count,maybe,value,holds\n\"a,b\",3,,0.1,true\n");
    CHECK(csv(kTable, rows(R"({"name":null,"count":-1,"maybe":7,"value":2,"holds":false})")) ==
          "name,count,maybe,value,holds\n,-1,7,2,false\n");
    CHECK(csv(kTable, rows("")) == "name,count,maybe,value,holds\n");
  }

  TEST_CASE("lists become rows") {
    CHECK(csv(kLists, R"("lists":[{"name":"a","x":[0.5,null],"n":[1,2]},{"name":"b","x":[],"n":null}])") ==
          "name,x,n\na,0.5,1\na,,2\n");
    CHECK(failure(kLists, R"("lists":[{"name":"a","x":[0.5,1],"n":[1]}])")
              .find("/lists/0/n: expected 2 values, found 1") != std::string::npos);
    CHECK(failure(kLists, R"("lists":[{"name":"a","x":3,"n":[1]}])")
              .find("/lists/0/x: expected an array or null, found number") != std::string::npos);
    CHECK(failure(kLists, R"("lists":[{"name":"a","x":[0.5],"n":[0.5]}])")
              .find("/lists/0/n/0: expected a whole number, found number") != std::string::npos);
  }

  TEST_CASE("what is not as the command writes it is named") {
    const auto says = [](const std::string& body, const std::string& words) {
      CAPTURE(body);
      CHECK(failure(kTable, body).find(words) != std::string::npos);
    };
    says(rows(R"({"name":"a","count":null,"maybe":1,"value":1,"holds":true})"),
         "/part/rows/0/count: expected a whole number, found null");
    says(rows(R"({"name":"a","count":1,"maybe":1.5,"value":1,"holds":true})"),
         "/part/rows/0/maybe: expected a whole number or null, found number");
    says(rows(R"({"name":"a","count":18446744073709551615,"maybe":1,"value":1,"holds":true})"),
         "/part/rows/0/count: expected a whole number");
    says(rows(R"({"name":1,"count":1,"maybe":1,"value":1,"holds":true})"), "expected text or null");
    says(rows(R"({"name":"a","count":1,"maybe":1,"value":"1","holds":true})"), "expected a number or null");
    says(rows(R"({"name":"a","count":1,"maybe":1,"value":1,"holds":0})"), "expected true, false or null");
    says(rows(R"({"name":"a"})"), "/part/rows/0/count: expected a value, found none");
    says(rows("3"), "/part/rows/0: expected an object");
    says(R"("part":3)", "/part: expected an object");
    says(R"("part":{"rows":{}})", "/part/rows: expected an array");
    JsonTable other = kTable;
    other.format = "rope-profiler/other";
    CHECK(failure(other, rows("")).find("/format: expected rope-profiler/other") != std::string::npos);
  }

  TEST_CASE("every table has a name of its own within its format, and columns") {
    for (const JsonTable& table : json_tables()) {
      CAPTURE(table.format);
      CAPTURE(table.name);
      int same = 0;
      for (const JsonTable* other : json_tables_of(table.format))
        same += std::string(other->name) == table.name;
      CHECK(same == 1);
      CHECK(!table.columns.empty());
    }
    CHECK(json_tables_of("rope-profiler/ranking").empty());
  }
}
