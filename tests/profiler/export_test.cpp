#include "profiler/export_table.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profiler/error.hpp"
#include "support/csv.hpp"
#include "support/make_profile.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

std::string written(const TableSource& table, TableFormat format) {
  std::ostringstream out;
  write_table(table, format, out);
  return out.str();
}

using Records = std::vector<std::vector<std::string>>;

/// A profile of the recipe and its tables.
class Fixture {
 public:
  Fixture() {
    make_profile(folder_ / "p.h5", ProfileRecipe{});
    profile_.emplace(folder_ / "p.h5");
  }
  const ProfileReader& profile() const { return *profile_; }
  TableSource table(const char* name) const { return profile_table(*profile_, name, {100, 1, 1}); }
  Records csv(const char* name) const { return parse_csv(written(table(name), TableFormat::kCsv)); }

 private:
  TempDir folder_;
  std::optional<ProfileReader> profile_;
};

std::size_t column_at(const Records& records, const std::string& name) {
  const auto& header = records.at(0);
  const auto found = std::find(header.begin(), header.end(), name);
  REQUIRE(found != header.end());
  return static_cast<std::size_t>(found - header.begin());
}

/// NPY read by its own description: fields as text, numbers as shown by their bits.
struct Npy {
  std::string descr;
  std::uint64_t rows = 0;
  std::string data;
};
Npy parse_npy(const std::string& bytes) {
  REQUIRE(bytes.substr(0, 6) == "\x93NUMPY");
  REQUIRE(bytes[6] == 1);
  const std::size_t length =
      static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  CHECK((10 + length) % 64 == 0);
  Npy npy;
  npy.descr = bytes.substr(10, length);
  CHECK(npy.descr.back() == '\n');
  npy.rows = std::stoull(npy.descr.substr(npy.descr.find("'shape': (") + 10));
  npy.data = bytes.substr(10 + length);
  return npy;
}
double double_at(const std::string& bytes, std::size_t at) {
  std::uint64_t bits = 0;
  for (int i = 7; i >= 0; --i)
    bits = bits << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return std::bit_cast<double>(bits);
}

TableSource odd_table() {
  TableSource table;
  table.columns = {{"name", CellType::kText},
                   {"n", CellType::kInteger},
                   {"rank", CellType::kInteger, true},
                   {"x", CellType::kReal},
                   {"yes", CellType::kBool}};
  table.rows = [](const RowSink& sink) {
    const std::vector<std::vector<Cell>> rows{
        {std::string("a,b \"c\"\nd"), std::int64_t{-5}, std::int64_t{3}, 0.1, true},
        {std::string("\xc3\xa9\xf0\x9f\x98\x80\xff"), std::int64_t{7}, Cell(), std::nan(""), false},
        {std::string(), INT64_MAX, Cell(), 5e-324, true}};
    for (const auto& row : rows) sink(row);
  };
  return table;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("CSV: quotes, empty fields, numbers that read back") {
  const std::string text = written(odd_table(), TableFormat::kCsv);
  CHECK(text.substr(0, text.find('\n')) == "name,n,rank,x,yes");
  const Records records = parse_csv(text);
  REQUIRE(records.size() == 4);
  CHECK(records[1] == std::vector<std::string>{"a,b \"c\"\nd", "-5", "3", "0.1", "true"});
  CHECK(records[2] == std::vector<std::string>{"\xc3\xa9\xf0\x9f\x98\x80\xff", "7", "", "", "false"});
  CHECK(records[3] == std::vector<std::string>{"", "9223372036854775807", "", "5e-324", "true"});
}

TEST_CASE("JSON lines: one object a line, null for nothing, invalid UTF-8 replaced") {
  std::istringstream lines(written(odd_table(), TableFormat::kJsonl));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["name"] == "a,b \"c\"\nd");
  CHECK(rows[0]["x"] == 0.1);
  CHECK(rows[0]["yes"] == true);
  CHECK(rows[1]["rank"].is_null());
  CHECK(rows[1]["x"].is_null());
  CHECK(rows[1]["name"] == "\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd");
  CHECK(rows[2]["n"] == INT64_MAX);
  CHECK(rows[2]["name"] == "");
}

TEST_CASE("NPY: structured array, UCS-4 text, NaN for nothing") {
  const Npy npy = parse_npy(written(odd_table(), TableFormat::kNpy));
  CHECK(npy.descr.find("('name', '<U9'), ('n', '<i8'), ('rank', '<f8'), ('x', '<f8'), ('yes', '|b1')") !=
        std::string::npos);
  CHECK(npy.rows == 3);
  const std::size_t row = 9 * 4 + 8 + 8 + 8 + 1;
  REQUIRE(npy.data.size() == 3 * row);
  CHECK(double_at(npy.data, 9 * 4 + 8) == 3);
  CHECK(double_at(npy.data, 9 * 4 + 16) == 0.1);
  CHECK(npy.data[9 * 4 + 24] == 1);
  CHECK(npy.data.substr(row, 12) == std::string("\xe9\0\0\0\x00\xf6\x01\0\xfd\xff\0\0", 12));
  CHECK(std::isnan(double_at(npy.data, row + 9 * 4 + 8)));
  CHECK(double_at(npy.data, 2 * row + 9 * 4 + 16) == 5e-324);
}

TEST_CASE("NPY: an empty table and a text column without text still load") {
  TableSource table;
  table.columns = {{"name", CellType::kText}};
  table.rows = [](const RowSink&) {};
  const Npy npy = parse_npy(written(table, TableFormat::kNpy));
  CHECK(npy.descr.find("'<U1'") != std::string::npos);
  CHECK(npy.rows == 0);
  CHECK(npy.data.empty());
}

TEST_CASE("tables have the columns of the contract, in its order, first") {
  const Fixture fixture;
  const std::map<std::string, std::string> contract{
      {"tasks",
       "task,family,examples,window_min,window_mean,window_max,semantic_score,positional_score,norm_share,"
       "effective_length_virtual,triplets,ties,pairs,undefined,non_finite,fragile"},
      {"heads",
       "task,layer,head,selected,semantic_score,positional_score,norm_share,effective_length_virtual,usage_"
       "cov,"
       "usage_centroid,frequency_mass,response_max"},
      {"examples",
       "task,example_id,window,high_pairs,layer,head,semantic_score,exact_semantic_score,positional_score,"
       "norm_share,effective_length_virtual,response_max,usage_cov,usage_centroid,frequency_mass"},
      {"frequencies", "task,layer,head,pair,omega,usage,usage_norm"},
      {"selection", "rank,layer,head,variance,stage"},
      {"ranking", "task,semantic_score,positional_score,r_s,r_p,w_s,w_p,direction,w_s_low,w_s_high"}};
  for (const auto& name : profile_table_names()) {
    CAPTURE(name);
    const std::string text = written(fixture.table(name.c_str()), TableFormat::kCsv);
    const std::string header = text.substr(0, text.find('\n'));
    const std::string& expected = contract.at(name);
    CHECK((header + ",").substr(0, expected.size() + 1) == expected + ",");
    const Records records = parse_csv(text);
    CHECK(records.size() > 1);
    for (const auto& record : records) CHECK(record.size() == records[0].size());
  }
  CHECK_THROWS_AS(fixture.table("nonsense"), UserError);
}

TEST_CASE("examples: one row per rotating head, with the layer's window and the stored values") {
  const Fixture fixture;
  const Records records = fixture.csv("examples");
  CHECK(records.size() == 1 + (3 + 4 + 5) * 6);
  const auto& task = fixture.profile().tasks()[0];
  const auto semantic = fixture.profile().read(task, Score::kSemantic, 1, 1);
  const auto windows = fixture.profile().read(task, Count::kLayerWindow, 1, 1);
  const auto high = fixture.profile().read(task, Count::kHighPairs, 1, 1);
  const std::size_t at = column_at(records, "semantic_score");
  std::size_t row = 1 + 6;  // example 1 of task 0
  for (const std::size_t head : {0u, 1u, 4u, 5u, 6u, 7u}) {
    CHECK(records[row][1] == "id-1, \"quoted\" \xc3\xa9");
    CHECK(records[row][2] == std::to_string(windows[head]));
    CHECK(records[row][3] == std::to_string(high[head]));
    CHECK(records[row][4] == std::to_string(head / 2));
    if (std::isnan(semantic[head]))
      CHECK(records[row][at].empty());
    else
      CHECK(std::stod(records[row][at]) == semantic[head]);
    ++row;
  }
  for (std::size_t i = 1; i < records.size(); ++i) CHECK(records[i][column_at(records, "aliasing")].empty());
}

TEST_CASE("selection: ranks in falling variance, the rest without a rank") {
  TempDir folder;
  ProfileHeader header;
  header.num_layers = 1;
  for (int head = 0; head < 30; ++head) header.heads.push_back({0, head, head != 29});
  HeadSelection s;
  s.rule = "all";
  s.selected.assign(30, 1);
  s.variance.assign(30, std::nan(""));
  s.status.assign(30, 0);
  s.status[28] = static_cast<char>(HeadStatus::kUndefinedInTask);
  s.status[29] = static_cast<char>(HeadStatus::kNoRotation);
  for (std::int64_t n = 27; n >= 0; --n) {
    s.order.push_back(n);
    s.variance[static_cast<std::size_t>(n)] = static_cast<double>(n);
  }
  s.counted = 29;
  {
    ProfileWriter writer(folder / "p.h5", false, header);
    writer.put_selection(s);
    writer.commit();
  }
  const ProfileReader profile(folder / "p.h5");
  const Records records = parse_csv(written(profile_table(profile, "selection", {}), TableFormat::kCsv));
  REQUIRE(records.size() == 30);  // the head without rotation is no row
  CHECK(std::vector<std::string>(records[1].begin(), records[1].begin() + 5) ==
        std::vector<std::string>{"1", "0", "27", "27", "5"});
  CHECK(records[2][4] == "5");   // ceil(0.05 * 29) = 2
  CHECK(records[3][4] == "10");  // ceil(0.1 * 29) = 3
  CHECK(records[4][4] == "none");
  CHECK(records[29][0].empty());
  CHECK(records[29][2] == "28");
  CHECK(records[29][3].empty());
  CHECK(records[29][column_at(records, "status")] == "undefined_in_task");
}

TEST_CASE("selection: one task ranks nothing") {
  TempDir folder;
  ScoreTable scores;
  scores.tasks = {"t"};
  scores.heads = 3;
  scores.scores = {{Score::kSemantic, {{{1, 2, 3}}}}};
  make_profile(folder / "p.h5", scores);
  const ProfileReader profile(folder / "p.h5");
  const Records records = parse_csv(written(profile_table(profile, "selection", {}), TableFormat::kCsv));
  REQUIRE(records.size() == 4);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(records[i][0].empty());
    CHECK(records[i][4] == "none");
    CHECK(records[i][5] == "true");
  }
}

TEST_CASE("frequencies: every pair, empty where it does not rotate") {
  const Fixture fixture;
  const Records records = fixture.csv("frequencies");
  CHECK(records.size() == 1 + 3 * 6 * 3);
  CHECK(records[3][3] == "2");
  CHECK(records[3][4] == "0");
  CHECK(records[3][5].empty());
  CHECK(std::stod(records[1][5]) == fixture.profile().usage(fixture.profile().tasks()[0])[0].usage[0]);
}

TEST_CASE("every format of every table holds the same values") {
  const Fixture fixture;
  for (const auto& name : profile_table_names()) {
    CAPTURE(name);
    const TableSource table = fixture.table(name.c_str());
    const Records records = parse_csv(written(table, TableFormat::kCsv));
    std::istringstream lines(written(table, TableFormat::kJsonl));
    std::size_t row = 1;
    for (std::string line; std::getline(lines, line); ++row) {
      const auto json = nlohmann::json::parse(line);
      CHECK(json.size() == records[0].size());
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const auto& value = json.at(table.columns[i].name);
        const std::string& field = records.at(row)[i];
        if (value.is_null())
          CHECK(field.empty());
        else if (value.is_string())
          CHECK(field == value.get<std::string>());
        else if (value.is_boolean())
          CHECK(field == (value.get<bool>() ? "true" : "false"));
        else
          CHECK(std::stod(field) == value.get<double>());
      }
    }
    CHECK(row == records.size());
    CHECK(parse_npy(written(table, TableFormat::kNpy)).rows == records.size() - 1);
  }
}

TEST_SUITE_END();
