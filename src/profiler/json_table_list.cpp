// The tables that lie in JSON results. Names and places of columns stay; new ones are added at the end.

#include "profiler/json_tables.hpp"

namespace rope {
namespace {

using Columns = std::vector<JsonColumn>;

constexpr JsonColumn text(const char* name) { return {name, CellType::kText}; }
constexpr JsonColumn flag(const char* name) { return {name, CellType::kBool}; }
constexpr JsonColumn integer(const char* name) { return {name, CellType::kInteger}; }
constexpr JsonColumn optional_integer(const char* name) { return {name, CellType::kInteger, true}; }
constexpr JsonColumn real(const char* name) { return {name, CellType::kReal}; }
constexpr JsonColumn integers(const char* name) { return {name, CellType::kInteger, false, true}; }
constexpr JsonColumn reals(const char* name) { return {name, CellType::kReal, false, true}; }

Columns joined(Columns first, const Columns& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

/// What the audit says of a group of pairs.
const Columns kAuditGroup = {integer("pairs"),
                             integer("pairs_without_floor"),
                             integer("violations_response"),
                             integer("violations_norm_floor"),
                             real("median_response_ratio"),
                             real("median_norm_floor_ratio"),
                             real("largest_response_ratio"),
                             real("largest_norm_floor_ratio"),
                             real("spearman_share_response"),
                             real("spearman_share_envelope"),
                             integer("band_vectors"),
                             integer("band_mean_holds"),
                             integer("band_variance_holds"),
                             real("band_largest_mean_share"),
                             real("band_largest_variance_share"),
                             integer("band_violations")};

std::vector<JsonTable> audit_tables() {
  constexpr const char *format = "rope-profiler/audit", *command = "audit --json";
  return {{format,
           command,
           "bins",
           "/bins",
           {integer("bin"), integer("pairs"), real("share_low"), real("share_median"), real("share_high"),
            real("response_low"), real("response_median"), real("response_high"), real("envelope_low"),
            real("envelope_median"), real("envelope_high")}},
          {format, command, "layers", "/layers", joined({integer("layer")}, kAuditGroup)},
          {format, command, "heads", "/heads", joined({integer("layer"), integer("head")}, kAuditGroup)}};
}

std::vector<JsonTable> bound_tables() {
  constexpr const char *format = "rope-profiler/bound", *command = "bound --json";
  const Columns setting = {text("task"), real("zeta_quantile"), integer("grid"),
                           real("c"),    real("epsilon"),       real("tau")};
  return {{format, command, "rows", "/rows",
           joined({integer("window"), real("zeta"), integer("k_n"), real("response_floor"),
                   real("mean_bound"), real("deviation_floor"), real("p_floor"), text("note")},
                  setting)},
          {format, command, "crossings", "/crossings",
           joined({real("zeta"), real("delta"), optional_integer("first_excluded"),
                   optional_integer("last_allowed"), real("delta_star"),
                   optional_integer("sufficient_window"), real("gamma"), text("verdict")},
                  setting)}};
}

std::vector<JsonTable> length_tables() {
  constexpr const char *format = "rope-profiler/length", *command = "length --json";
  const Columns head = {integer("layer"), integer("head")};
  return {{format, command, "heads", "/heads",
           joined(head, {optional_integer("layer_window"),
                         flag("softcap"),
                         real("effective_length_virtual"),
                         real("effective_length_virtual_slow"),
                         integer("rows"),
                         integer("undefined_rows"),
                         integer("groups"),
                         real("shortest"),
                         real("longest"),
                         real("effective_length"),
                         real("slope"),
                         real("slope_low"),
                         real("slope_high"),
                         real("intercept"),
                         text("class"),
                         real("effective_length_without_first"),
                         real("slope_without_first"),
                         real("slope_low_without_first"),
                         real("slope_high_without_first"),
                         real("intercept_without_first"),
                         text("class_without_first"),
                         real("entropy"),
                         real("sink"),
                         real("previous_token"),
                         real("slash"),
                         optional_integer("slash_offset"),
                         real("local_mass")})},
          {format, command, "virtual", "/virtual",
           joined({text("task"), integer("layer"), integer("head")},
                  {text("beta"), integer("pairs"), real("effective_length"), real("effective_length_slow")})},
          {format, command, "lengths", "/lengths",
           joined(head,
                  {integer("group"), integer("examples"), real("length"), real("length_without_first"),
                   text("beta"), real("log_effective_length"), real("log_effective_length_without_first")})}};
}

std::vector<JsonTable> band_tables() {
  constexpr const char *format = "rope-profiler/band", *command = "band --json";
  const Columns group = {integer("group"), optional_integer("layer"), optional_integer("head"),
                         integer("grid"), optional_integer("window")};
  return {
      {format, command, "prefixes", "/prefixes",
       joined(group, {integer("size"), integer("pair"), real("omega"), real("r_var"), real("ratio"),
                      real("agreement")})},
      {format, command, "energy_share", "/energy_share",
       joined(group, {integer("pair"), real("omega"), real("share"), real("pair_r_var")})},
      {format, command, "breaks", "/breaks",
       joined(group, {real("threshold"), optional_integer("size"), optional_integer("pair"), real("omega"),
                      real("turn_min"), real("turn_max"), real("agreement")})},
      {format, command, "laws", "/laws",
       joined(group, {text("set"), integer("size_min"), integer("size_max"), integer("vectors"),
                      integer("left_out"), integer("stride"), real("kolmogorov"), real("kolmogorov_error")})},
      {format, command, "score_law", "/score_law",
       joined(group, {text("set"), real("low"), real("high"), real("share"), real("normal")})}};
}

std::vector<JsonTable> adarope_tables() {
  constexpr const char *format = "rope-profiler/adarope", *command = "adarope -o";
  const Columns head = {integer("layer"), integer("head")};
  return {{format, command, "heads", "/heads",
           joined(head, {real("tau"), real("gamma"), real("reference_length"), real("residual"),
                         real("logit_variance"), text("reason")})},
          {format, command, "lengths", "/heads",
           joined(head, {reals("lengths"), reals("effective_length"), reals("lambda"), reals("nope_scale")})},
          {format, command, "use", "/use",
           joined(head, {real("usage_cov"), real("usage_centroid"), real("usage_norm_cov"),
                         real("usage_norm_centroid"), real("frequency_mass"), real("effective_base"),
                         real("amplitude"), real("effective_length_virtual"), real("logit_variance")})},
          {format, command, "frequencies", "/use",
           joined(head, {integers("pair"), reals("omega"), reals("usage"), reals("usage_norm"),
                         reals("length_change"), reals("variance_change")})},
          {format,
           command,
           "bounds",
           "/bounds",
           {optional_integer("layer"), optional_integer("head"), real("a_star"), real("norm_product"),
            real("length"), real("max_omega"), real("needed_logit"), real("c1"), real("c2"), real("lower"),
            real("upper"), real("frequency_mass"), flag("has_fast_pairs"), flag("possible")}}};
}

}  // namespace

const std::vector<JsonTable>& json_tables() {
  static const std::vector<JsonTable> tables = [] {
    std::vector<JsonTable> all;
    for (const auto& some :
         {audit_tables(), band_tables(), bound_tables(), length_tables(), adarope_tables()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return tables;
}

}  // namespace rope
