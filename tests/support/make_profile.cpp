#include "support/make_profile.hpp"

#include <limits>

namespace rope::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> random_row(std::mt19937_64& generator, const ProfileHeader& header, double missing) {
  std::vector<double> row;
  for (const auto& head : header.heads) {
    const double value = unit(generator), coin = unit(generator);
    row.push_back(!head.rotates || coin < missing ? kNaN : value);
  }
  return row;
}

HeadSelection recipe_selection(const ProfileHeader& header) {
  HeadSelection s;
  s.rule = "top:0.05";
  for (std::size_t n = 0; n < header.heads.size(); ++n) {
    const bool rotates = header.heads[n].rotates;
    s.selected.push_back(rotates && n % 3 == 0);
    s.variance.push_back(rotates ? 1.0 / static_cast<double>(n + 1) : kNaN);
    s.status.push_back(static_cast<char>(rotates ? HeadStatus::kRanked : HeadStatus::kNoRotation));
    if (rotates) s.order.push_back(static_cast<std::int64_t>(n));
  }
  s.counted = static_cast<std::int64_t>(s.order.size());
  return s;
}

void put_rows(ProfileWriter& writer, const std::string& task, std::int64_t examples,
              const ProfileHeader& header, std::mt19937_64& generator) {
  for (std::int64_t row = 0; row < examples; ++row) {
    writer.put_example(task, row, "id-" + std::to_string(row) + (row == 1 ? ", \"quoted\" \xc3\xa9" : ""),
                       100 + row);
    for (int s = 0; s < static_cast<int>(Score::kCount); ++s)
      if (s != static_cast<int>(Score::kPositional) && s != static_cast<int>(Score::kAliasing))
        writer.put(task, static_cast<Score>(s), row, random_row(generator, header, 0.1));
    for (int c = 0; c < static_cast<int>(Count::kCount); ++c) {
      std::vector<std::int64_t> row_counts;
      for (const auto& head : header.heads)
        row_counts.push_back(head.rotates ? static_cast<std::int64_t>(1 + generator() % 9) : 0);
      writer.put(task, static_cast<Count>(c), row, row_counts);
    }
  }
}

std::vector<UsageSpectrum> recipe_usage(const ProfileHeader& header, std::mt19937_64& generator) {
  UsageSpectrum s;
  s.omega = {1.0, 0.1, 0.0};
  for (std::size_t n = 0; n < header.heads.size(); ++n) {
    if (!header.heads[n].rotates) continue;
    s.heads.push_back(static_cast<std::int64_t>(n));
    s.examples.push_back(3);
    for (const double omega : s.omega) {
      s.usage.push_back(omega > 0 ? unit(generator) : kNaN);
      s.usage_norm.push_back(omega > 0 ? unit(generator) : kNaN);
    }
  }
  return {s};
}

}  // namespace

ProfileHeader recipe_header(const ProfileRecipe& recipe) {
  ProfileHeader header;
  header.tool_version = "0.0-test";
  header.model_name = "Invented-1";
  header.model_type = "llama";
  header.num_layers = recipe.layers;
  header.settings = {{"split", "operational"}, {"backend", "cpu"}, {"heads", "top:0.05"}, {"window", ""}};
  header.warnings = {"config.json names no rope_theta; 10000 was assumed"};
  for (int layer = 0; layer < recipe.layers; ++layer) {
    ProfileLayer l;
    l.layer = layer;
    l.kind = "full_attention";
    l.rope_type = layer == 1 ? "none" : "default";
    l.theta = 10000;
    l.logit_scale = 0.125;
    l.pairs = 2;
    l.rotary_dim = l.head_dim = 6;
    l.query_heads = 2;
    l.kv_heads = 1;
    header.layers.push_back(l);
    for (int head = 0; head < 2; ++head) header.heads.push_back({layer, head, layer != 1});
  }
  return header;
}

void fill_profile(ProfileWriter& writer, const ProfileRecipe& recipe) {
  const ProfileHeader header = recipe_header(recipe);
  std::mt19937_64 generator(recipe.seed);
  std::vector<ProfileTask> tasks;
  for (int t = 0; t < recipe.tasks; ++t) {
    ProfileTask task{"task-" + std::to_string(t), "family", "source", 4096, {}, 3 + t};
    for (int layer = 0; layer < recipe.layers; ++layer) task.layers.push_back(layer);
    tasks.push_back(task);
    writer.add_task(task);
  }
  for (const auto& task : tasks) put_rows(writer, task.name, task.examples, header, generator);
  writer.flush();
  for (const auto& task : tasks) {
    for (std::int64_t i = 0; i < task.examples; ++i)
      writer.put(task.name, Score::kPositional, recipe.reverse_second_pass ? task.examples - 1 - i : i,
                 random_row(generator, header, 0.5));
    if (recipe.usage) writer.put_usage(task.name, recipe_usage(header, generator));
  }
  if (recipe.selection) writer.put_selection(recipe_selection(header));
  if (recipe.inputs) writer.put_inputs({{"a.h5", std::string(64, 'a'), 12}, {"b.h5", "", 13}});
}

void make_profile(const std::string& path, const ProfileRecipe& recipe) {
  ProfileWriter writer(path, true, recipe_header(recipe));
  fill_profile(writer, recipe);
  writer.commit();
}

void make_profile(const std::string& path, const ScoreTable& table) {
  ProfileHeader header;
  header.tool_version = "0.0-test";
  header.model_name = "Invented-1";
  header.num_layers = 1;
  header.settings = {{"split", "operational"}, {"backend", "cpu"}};
  for (int head = 0; head < table.heads; ++head) header.heads.push_back({0, head, true});
  const std::size_t n = header.heads.size();
  ProfileWriter writer(path, true, header);
  for (std::size_t t = 0; t < table.tasks.size(); ++t) {
    const auto examples = static_cast<std::int64_t>(table.scores.at(0).second.at(t).size());
    writer.add_task({table.tasks[t], "", "", 0, {0}, examples});
    for (std::int64_t row = 0; row < examples; ++row) {
      writer.put_example(table.tasks[t], row, std::to_string(row), 1000);
      for (const auto& [score, cube] : table.scores)
        writer.put(table.tasks[t], score, row, cube.at(t).at(static_cast<std::size_t>(row)));
    }
  }
  HeadSelection s;
  s.rule = "all";
  s.selected = table.selected.empty() ? std::vector<char>(n, 1) : table.selected;
  s.variance.assign(n, kNaN);
  s.status.assign(n, 0);
  s.counted = table.heads;
  for (int head = 0; head < table.heads; ++head) s.order.push_back(head);
  writer.put_selection(s);
  writer.commit();
}

}  // namespace rope::test
