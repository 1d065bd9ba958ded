// Groups, attributes and shapes of an activation cache (activation-format.md): every check of them.
#include "profiler/activation_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "profiler/clean_text.hpp"
#include "profiler/edit_distance.hpp"

namespace rope {
namespace {

constexpr std::int64_t kMostLayers = 65536, kMostHeads = 65536, kLargestHead = 65536;
constexpr std::int64_t kMostSlots = std::int64_t{1} << 24;  // the largest window
constexpr std::int64_t kLargestBlock = std::int64_t{1} << 30;
constexpr std::size_t kLongestName = 1024;
constexpr const char* kRotationMeaning =
    "pre: the vectors right before the rotary step, post: right after it (as a KV cache holds its keys)";

/// Reader of one group's attributes, with the checks that all of them share.
struct Attributes {
  const Hdf5Source& source;
  hid_t object;
  std::string path;

  std::string where(const std::string& name) const { return path + " (attribute " + name + ")"; }

  std::string name(const std::string& attribute, bool required) const {
    const auto value = source.text(object, path, attribute);
    if (!value && required) throw source.error(where(attribute), "text", "nothing");
    if (!value) return {};
    if ((required && value->empty()) || value->size() > kLongestName || !is_clean_text(*value))
      throw source.error(
          where(attribute),
          fmt::format("UTF-8 text of at most {} bytes without control characters", kLongestName),
          quoted(*value));
    return *value;
  }
  int count(const std::string& attribute, std::int64_t most) const {
    const auto value = source.integer(object, path, attribute);
    const std::string expected = fmt::format("an integer from 1 to {}", most);
    if (!value) throw source.error(where(attribute), expected, "nothing");
    if (*value < 1 || *value > most)
      throw source.error(where(attribute), expected, fmt::format("{}", *value));
    return static_cast<int>(*value);
  }
  /// Index of the attribute's value in `choices`; `missing` where it is absent and may be.
  int choice(const std::string& attribute, const std::vector<std::string>& choices, int missing = -1,
             const std::string& meaning = {}) const {
    const auto value = source.text(object, path, attribute);
    if (!value && missing >= 0) return missing;
    const std::string expected = quoted(choices[0]) + " or " + quoted(choices[1]);
    if (!value) throw source.error(where(attribute), expected, "nothing", meaning);
    const auto found = std::find(choices.begin(), choices.end(), *value);
    if (found == choices.end()) throw source.error(where(attribute), expected, quoted(*value), meaning);
    return static_cast<int>(found - choices.begin());
  }
};

/// Whether an optional object is there; a group too damaged to tell counts as a failed check.
bool has(const Hdf5Source& source, const Hdf5Group& group, const std::string& name, CheckLog& log) {
  bool found = false;
  try {
    found = source.has(group, name);
  } catch (const UserError&) {
    log.run(group.path + "/" + name, [] { throw; });
  }
  return found;
}

/// A dataset that must be there; `meaning` completes "the dataset ..." for who forgot it.
Hdf5Dataset required_set(const Hdf5Source& source, const Hdf5Group& group, const std::string& name,
                         const std::string& meaning, const std::string& hint = {}) {
  if (!source.has(group, name))
    throw source.error(group.path + "/" + name, "the dataset " + meaning, "nothing", hint);
  return source.dataset(group, name);
}

void check_format(const Hdf5Source& source, const Hdf5Group& root, CheckLog& log) {
  const Attributes root_attributes{source, root.handle.get(), "/"};
  log.run("/: format", [&] {
    constexpr const char* kFormat = "rope-profiler/activations";
    const auto format = source.text(root.handle.get(), "/", "format");
    if (!format || *format != kFormat)
      throw source.error(root_attributes.where("format"), quoted(kFormat),
                         format ? quoted(*format) : "nothing",
                         "this command reads activation caches (docs/activation-format.md)");
  });
  log.run("/: format_version", [&] {
    const auto version = source.integer(root.handle.get(), "/", "format_version");
    if (!version || *version != 1)
      throw source.error(root_attributes.where("format_version"), "1",
                         version ? fmt::format("{}", *version) : "nothing",
                         version && *version > 1 ? "the file was written for a newer rope-profiler" : "");
  });
}

void read_inv_freq(const Hdf5Source& source, const Hdf5Group& group, ModelHeader& model) {
  const Hdf5Dataset set = source.dataset(group, "inv_freq");
  source.require_floats(set);
  const std::string expected = fmt::format("shape [h], [{0}, h] or [{0}, {1}, h] with 1 <= h <= {2}",
                                           model.num_layers, model.num_query_heads, model.head_dim / 2);
  bool fits = !set.shape.empty() && set.shape.size() <= 3 && set.shape.back() >= 1 &&
              2 * set.shape.back() <= model.head_dim;
  if (set.shape.size() >= 2) fits &= set.shape[0] == model.num_layers;
  if (set.shape.size() == 3) fits &= set.shape[1] == model.num_query_heads;
  if (!fits) throw source.error(set.path, expected, shape_text(set.shape));
  model.inv_freq = source.read_doubles(set);
  model.inv_freq_shape = set.shape;
}

void read_sink_logit(const Hdf5Source& source, const Hdf5Group& group, ModelHeader& model) {
  const Hdf5Dataset set = source.dataset(group, "sink_logit");
  source.require_floats(set);
  source.require_shape(set, {model.num_layers, model.num_query_heads}, "[num_layers, num_query_heads]");
  model.sink_logit = source.read_doubles(set);
}

ModelHeader read_model(const Hdf5Source& source, const Hdf5Group& group, CheckLog& log) {
  ModelHeader model;
  model.file = source.path();
  const Attributes in{source, group.handle.get(), group.path};
  log.run("/model: name", [&] { model.name = in.name("name", true); });
  bool sizes = log.run("/model: num_layers", [&] { model.num_layers = in.count("num_layers", kMostLayers); });
  sizes &= log.run("/model: num_query_heads",
                   [&] { model.num_query_heads = in.count("num_query_heads", kMostHeads); });
  sizes &=
      log.run("/model: num_kv_heads", [&] { model.num_kv_heads = in.count("num_kv_heads", kMostHeads); });
  sizes &= log.run("/model: head_dim", [&] {
    model.head_dim = in.count("head_dim", kLargestHead);
    if (model.head_dim < 2) throw source.error(in.where("head_dim"), "at least 2", "1");
  });
  if (model.num_query_heads > 0 && model.num_kv_heads > 0)
    log.run("/model: head groups", [&] {
      if (model.num_query_heads % model.num_kv_heads != 0)
        throw source.error("/model", "num_query_heads to be a multiple of num_kv_heads",
                           fmt::format("{} and {}", model.num_query_heads, model.num_kv_heads));
    });
  log.run("/model: rope_layout", [&] {
    model.layout = static_cast<spectral::PairLayout>(in.choice(
        "rope_layout", {"half", "interleaved"}, -1,
        "the lanes that turn together: half = n and n + r/2 of r rotary lanes, interleaved = 2n and 2n + 1"));
  });
  log.run("/model: query_rotation", [&] {
    model.query_rotation =
        static_cast<Rotation>(in.choice("query_rotation", {"pre", "post"}, -1, kRotationMeaning));
  });
  log.run("/model: key_rotation", [&] {
    model.key_rotation =
        static_cast<Rotation>(in.choice("key_rotation", {"pre", "post"}, -1, kRotationMeaning));
  });
  log.run("/model: rope_direction", [&] {
    model.reversed = in.choice("rope_direction", {"forward", "reversed"}, 0) == 1;
  });
  log.run("/model: config", [&] {
    model.config = source.text(group.handle.get(), group.path, "config");
    if (model.config && !is_utf8(*model.config))
      throw source.error(in.where("config"), "UTF-8 text", "other bytes");
  });
  log.run("/model: attention_scale", [&] {
    model.attention_scale = source.number(group.handle.get(), group.path, "attention_scale");
    if (model.attention_scale && !(std::isfinite(*model.attention_scale) && *model.attention_scale > 0))
      throw source.error(in.where("attention_scale"), "a positive number",
                         fmt::format("{}", *model.attention_scale));
  });
  if (!sizes) return model;
  if (has(source, group, "inv_freq", log))
    log.run("/model/inv_freq: shape and type", [&] { read_inv_freq(source, group, model); });
  if (has(source, group, "sink_logit", log))
    log.run("/model/sink_logit: shape and type", [&] { read_sink_logit(source, group, model); });
  return model;
}

/// Reads one side's header. `axes` names the dataset's axes for messages.
void read_side(const Hdf5Source& source, const Hdf5Dataset& set, const std::string& axes, int heads,
               const ModelHeader& model, ElementType& type, std::int64_t& slots) {
  if (set.shape.size() != 5)
    throw source.error(set.path, "five axes " + axes, "shape " + shape_text(set.shape));
  if (std::find(set.shape.begin(), set.shape.end(), 0) != set.shape.end())
    throw source.error(set.path, "no axis of size 0", "shape " + shape_text(set.shape));
  type = vector_element_type(source, set);
  if (heads > 0 && set.shape[2] != heads)
    throw source.error(set.path, fmt::format("{} heads (axis 2), as /model says", heads),
                       "shape " + shape_text(set.shape));
  if (model.head_dim > 0 && set.shape[4] != model.head_dim)
    throw source.error(set.path, fmt::format("{} lanes (axis 4), as /model says", model.head_dim),
                       "shape " + shape_text(set.shape));
  slots = set.shape[3];
  if (slots > kMostSlots)
    throw source.error(set.path, fmt::format("at most {} token slots", kMostSlots), fmt::format("{}", slots));
  const std::int64_t row =
      static_cast<std::int64_t>(element_size(type)) * std::min(set.shape[4], kLargestHead);
  if (slots > kLargestBlock / row)
    throw source.error(set.path, "at most 1 GiB per example, layer and head",
                       fmt::format("{} slots of {} bytes", slots, row));
}

void read_layers(const Hdf5Source& source, const Hdf5Group& group, const ModelHeader& model,
                 std::int64_t count, TaskHeader& task) {
  const std::string path = group.path + "/layer";
  if (count > kMostLayers)
    throw source.error(group.path + "/query", fmt::format("at most {} layers (axis 1)", kMostLayers),
                       fmt::format("{}", count));
  std::vector<std::int64_t> layers(static_cast<std::size_t>(count));
  if (source.has(group, "layer")) {
    const Hdf5Dataset set = source.dataset(group, "layer");
    source.require_integers(set);
    source.require_shape(set, {count}, "[L]");
    layers = source.read_integers(set, {0}, {count});
  } else {
    for (std::int64_t i = 0; i < count; ++i) layers[static_cast<std::size_t>(i)] = i;
    task.assumed_layers = count < model.num_layers;
  }
  std::int64_t last = -1;
  for (const std::int64_t layer : layers) {
    if (layer <= last)
      throw source.error(path, "layers in strictly rising order from 0 up",
                         last < 0 ? fmt::format("{}", layer) : fmt::format("{} after {}", layer, last));
    if (model.num_layers > 0 && layer >= model.num_layers)
      throw source.error(path, fmt::format("layers below num_layers = {}", model.num_layers),
                         fmt::format("{}", layer));
    if (layer >= kMostLayers) throw source.error(path, "a layer number", fmt::format("{}", layer));
    task.layers.push_back(static_cast<int>(layer));
    last = layer;
  }
}

Hdf5Dataset integer_set(const Hdf5Source& source, const Hdf5Group& group, const std::string& name,
                        const std::vector<std::int64_t>& shape, const std::string& axes,
                        const std::string& content) {
  Hdf5Dataset set = required_set(source, group, name, axes + " of " + content);
  source.require_integers(set);
  source.require_shape(set, shape, axes);
  return set;
}

void read_triplet_header(const Hdf5Source& source, const Hdf5Group& group, TaskHeader& task) {
  const Hdf5Dataset set = source.dataset(group, "triplet_key_pair");
  source.require_integers(set);
  if (set.shape.size() != 3 || set.shape[0] != task.examples || set.shape[1] < 1 ||
      set.shape[1] > kMostSlots || set.shape[2] != 2)
    throw source.error(
        set.path, fmt::format("shape [E, T, 2] = [{}, T, 2] with 1 <= T <= {}", task.examples, kMostSlots),
        shape_text(set.shape));
  task.triplet_slots = set.shape[1];
}

void read_task_attributes(const Hdf5Source& source, const Hdf5Group& group, TaskHeader& task, CheckLog& log) {
  const Attributes in{source, group.handle.get(), group.path};
  log.run(group.path + ": attributes", [&] {
    task.family = in.name("family", false);
    task.source = in.name("source", false);
    task.nominal_length = source.integer(in.object, in.path, "nominal_length").value_or(0);
    if (task.nominal_length < 0)
      throw source.error(in.where("nominal_length"), "a length in tokens",
                         fmt::format("{}", task.nominal_length));
    task.full_coverage = in.choice("key_coverage", {"sampled", "full"}, 0,
                                   "full: every token up to the last query is a key; sampled: some are") == 1;
  });
}

/// For a group without query: whether it looks like the parent of tasks.
std::string no_task_hint(const Hdf5Source& source, const Hdf5Group& group) {
  constexpr std::size_t kLooked = 16;
  if (source.has(group, "key")) return {};
  std::vector<std::string> names = source.names(group);
  names.resize(std::min(names.size(), kLooked));
  for (const std::string& name : names) {
    try {
      source.group(group, name);
    } catch (const UserError&) {
      continue;
    }
    return "each group in /tasks is a task; a task's name cannot hold a slash";
  }
  return {};
}

/// One task group; false when a check failed.
bool read_task(const Hdf5Source& source, const Hdf5Group& group, const ModelHeader& model, TaskHeader& task,
               CheckLog& log) {
  const std::size_t failed_before = static_cast<std::size_t>(
      std::count_if(log.results.begin(), log.results.end(), [](const auto& r) { return !r.passed; }));
  read_task_attributes(source, group, task, log);
  std::vector<std::int64_t> query, key;
  log.run(group.path + "/query: shape and type", [&] {
    const Hdf5Dataset set = required_set(source, group, "query", "[E, L, Hq, Nq, D] of query vectors",
                                         no_task_hint(source, group));
    read_side(source, set, "[E, L, Hq, Nq, D]", model.num_query_heads, model, task.query_type,
              task.query_slots);
    query = set.shape;
  });
  log.run(group.path + "/key: shape and type", [&] {
    const Hdf5Dataset set = required_set(source, group, "key", "[E, L, Hkv, Nk, D] of key vectors");
    read_side(source, set, "[E, L, Hkv, Nk, D]", model.num_kv_heads, model, task.key_type, task.key_slots);
    key = set.shape;
    if (!query.empty() && (key[0] != query[0] || key[1] != query[1] || key[4] != query[4]))
      throw source.error(set.path, "the examples, layers and lanes of query, " + shape_text(query),
                         shape_text(key));
  });
  if (!query.empty()) {
    task.examples = query[0];
    task.query_heads = static_cast<int>(std::min(query[2], kMostHeads));
    task.head_dim = static_cast<int>(std::min(query[4], kLargestHead));
    if (!key.empty()) task.kv_heads = static_cast<int>(std::min(key[2], kMostHeads));
    log.run(group.path + "/layer: values", [&] { read_layers(source, group, model, query[1], task); });
    log.run(group.path + "/query_position: shape and type", [&] {
      integer_set(source, group, "query_position", {task.examples, task.query_slots}, "[E, Nq]",
                  "the queries' token positions");
    });
    if (!key.empty())
      log.run(group.path + "/key_position: shape and type", [&] {
        integer_set(source, group, "key_position", {task.examples, task.key_slots}, "[E, Nk]",
                    "the keys' token positions");
      });
    log.run(group.path + "/window: shape and type",
            [&] { integer_set(source, group, "window", {task.examples}, "[E]", "input lengths in tokens"); });
    task.has_example_id = has(source, group, "example_id", log);
    if (task.has_example_id)
      log.run(group.path + "/example_id: shape and type", [&] {
        const Hdf5Dataset set = source.dataset(group, "example_id");
        source.require_texts(set);
        source.require_shape(set, {task.examples}, "[E]");
      });
    if (has(source, group, "triplet_key_pair", log))
      log.run(group.path + "/triplet_key_pair: shape and type",
              [&] { read_triplet_header(source, group, task); });
  }
  const std::size_t failed = static_cast<std::size_t>(
      std::count_if(log.results.begin(), log.results.end(), [](const auto& r) { return !r.passed; }));
  return failed == failed_before;
}

void read_tasks(const Hdf5Source& source, const Hdf5Group& root, CacheContents& contents, CheckLog& log) {
  std::vector<std::string> names;
  Hdf5Group tasks;
  const bool listed = log.run("/tasks", [&] {
    tasks = source.group(root, "tasks");
    names = source.names(tasks);
    if (names.empty()) throw source.error("/tasks", "at least one task group", "none");
  });
  if (!listed) return;
  std::unordered_set<std::uint64_t> seen{source.identity(root), source.identity(tasks)};
  for (const std::string& name : names) {
    TaskHeader task;
    task.name = name;
    Hdf5Group group;
    const std::string shown = is_clean_text(name) ? "/tasks/" + name : "/tasks/" + quoted(name);
    const bool usable = log.run(shown + ": group", [&] {
      if (name.size() > kLongestName || !is_clean_text(name))
        throw source.error(shown, "a UTF-8 task name without control characters", quoted(name));
      group = source.group(tasks, name);
      if (!seen.insert(source.identity(group)).second)
        throw source.error(shown, "a group of its own", "another group under a second name");
    });
    if (usable && read_task(source, group, contents.model, task, log)) contents.tasks.push_back(task);
  }
}

/// Attributes that nobody reads and whose names are a slip away from one that is read.
void warn_of_slips(const Hdf5Source& source, const Hdf5Group& group, const std::vector<std::string>& known,
                   std::vector<std::string>& warnings) {
  for (const std::string& name : source.attribute_names(group.handle.get())) {
    if (name.size() > 64 || !is_clean_text(name)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    for (const std::string& meant : known)
      if (edit_distance(name, meant) <= std::min<std::size_t>(2, meant.size() / 3)) {
        warnings.push_back(
            fmt::format("{}: attribute {} is ignored; did you mean {}?", group.path, name, meant));
        break;
      }
  }
}

/// One warning for all tasks of a kind: who forgets `layer` forgets it everywhere.
void warn_of_layers(const CacheContents& contents, std::vector<std::string>& warnings) {
  constexpr std::size_t kNamed = 3;
  std::map<std::size_t, std::vector<std::string>> tasks;  // by L
  for (const TaskHeader& task : contents.tasks)
    if (task.assumed_layers) tasks[task.layers.size()].push_back(task.name);
  for (auto& [layers, names] : tasks) {
    const std::size_t more = names.size() - std::min(names.size(), kNamed);
    names.resize(names.size() - more);
    warnings.push_back(
        fmt::format("task{} {}{}: no dataset layer, and {} of the model's {} layers; layer{} assumed",
                    names.size() == 1 ? "" : "s", fmt::join(names, ", "),
                    more > 0 ? fmt::format(" and {} more", more) : "", layers, contents.model.num_layers,
                    layers == 1 ? " 0 is" : fmt::format("s 0 to {} are", layers - 1)));
  }
}

void warn_of_header(const Hdf5Source& source, CacheContents& contents) {
  const Hdf5Group root = source.root();
  warn_of_slips(source, source.group(root, "model"),
                {"name", "num_layers", "num_query_heads", "num_kv_heads", "head_dim", "rope_layout",
                 "query_rotation", "key_rotation", "rope_direction", "config", "attention_scale"},
                contents.warnings);
  const Hdf5Group tasks = source.group(root, "tasks");
  for (const TaskHeader& task : contents.tasks)
    warn_of_slips(source, source.group(tasks, task.name),
                  {"family", "source", "nominal_length", "key_coverage"}, contents.warnings);
  warn_of_layers(contents, contents.warnings);
}

/// "FILE: PLACE: expected X, found Y" without the file, and without the place where the check's name tells
/// it.
std::string without_known_place(const std::string& message, const std::string& check) {
  const std::size_t expected = message.find(": expected ");
  if (expected == std::string::npos) return message;
  const std::size_t before = message.rfind(": /", expected);
  const std::string place =
      before == std::string::npos ? "" : message.substr(before + 2, expected - before - 2);
  const std::size_t colon = check.find(": ");
  const bool known = colon == std::string::npos ? place == check
                                                : place == check.substr(0, colon) ||
                                                      place == check.substr(0, colon) + " (attribute " +
                                                                   check.substr(colon + 2) + ")";
  return place.empty() || known ? message.substr(expected + 2) : message.substr(before + 2);
}

}  // namespace

bool CheckLog::run(const std::string& name, const std::function<void()>& check) {
  CheckResult result;
  result.name = name;
  try {
    check();
  } catch (const UserError& failure) {
    if (!go_on_) throw;
    result.passed = false;
    result.detail = without_known_place(failure.what(), name);
    result.hint = failure.hint();
  }
  if (go_on_) results.push_back(result);
  return result.passed;
}

ElementType vector_element_type(const Hdf5Source& source, const Hdf5Dataset& set) {
  const std::string expected = "float16, bfloat16, float32 or float64";
  const auto dtype = source.text(set.handle.get(), set.path, "dtype");
  if (set.type_class == H5T_INTEGER) {
    if (is_plain_number(set.type.get()) && set.element_bytes == 2 && dtype && *dtype == "bfloat16")
      return ElementType::kBfloat16;
    throw source.error(set.path, expected,
                       type_text(set.type.get()) + (dtype ? " with dtype = " + quoted(*dtype) : ""),
                       "bfloat16 bits in 16-bit integers need the dataset attribute dtype = \"bfloat16\"");
  }
  if (set.type_class != H5T_FLOAT) throw source.error(set.path, expected, type_text(set.type.get()));
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  H5Tget_fields(set.type.get(), &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
  const std::size_t bits = 8 * set.element_bytes, bias = H5Tget_ebias(set.type.get());
  const bool plain = is_plain_number(set.type.get()) && bias + 1 == std::size_t{1} << (exponent_bits - 1);
  if (plain && bits == 16 && exponent_bits == 5) {
    if (dtype && *dtype == "bfloat16")
      throw source.error(set.path, "one element type", "a float16 dataset with dtype = \"bfloat16\"");
    return ElementType::kFloat16;
  }
  if (plain && bits == 16 && exponent_bits == 8) return ElementType::kBfloat16;
  if (plain && bits == 32 && exponent_bits == 8) return ElementType::kFloat32;
  if (plain && bits == 64 && exponent_bits == 11) return ElementType::kFloat64;
  throw source.error(set.path, expected,
                     fmt::format("a {}-bit float of {} exponent and {} mantissa bits, exponent bias {}", bits,
                                 exponent_bits, mantissa_bits, bias));
}

CacheContents read_contents(const Hdf5Source& source, CheckLog& log) {
  CacheContents contents;
  const Hdf5Group root = source.root();
  check_format(source, root, log);
  log.run("/: created_by", [&] {
    contents.created_by = Attributes{source, root.handle.get(), "/"}.name("created_by", false);
  });
  Hdf5Group model;
  if (log.run("/model", [&] { model = source.group(root, "model"); }))
    contents.model = read_model(source, model, log);
  read_tasks(source, root, contents, log);
  try {
    warn_of_header(source, contents);
  } catch (const UserError&) {  // a check has failed on it
  }
  return contents;
}

TaskData open_task(const Hdf5Source& source, const TaskHeader& task) {
  const Hdf5Group root = source.root(), tasks = source.group(root, "tasks");
  const Hdf5Group group = source.group(tasks, task.name);
  TaskData data;
  data.query = source.dataset(group, "query", true);
  data.key = source.dataset(group, "key", true);
  data.query_position = source.dataset(group, "query_position");
  data.key_position = source.dataset(group, "key_position");
  data.window = source.dataset(group, "window");
  if (task.has_example_id) data.example_id = source.dataset(group, "example_id");
  if (task.triplet_slots > 0) data.triplets = source.dataset(group, "triplet_key_pair");
  return data;
}

}  // namespace rope
