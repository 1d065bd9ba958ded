#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/model_config.hpp"
#include "profiler/part_slots.hpp"
#include "spectral/pair_runs.hpp"
#include "spectral/vector_columns.hpp"

namespace rope {

/// Pairs and margins of a larger norm count as overflow (theory §3: non-finite): sums of their scores over a
/// window, or over pairs, could leave float64.
inline constexpr double kLargestNorm = 1e290;

/// One side (queries or keys) of one head, and what turns its stored rows into content vectors in float64.
struct SideSource {
  const RawBlock* block = nullptr;
  std::int64_t head = 0;  ///< row of the block's head axis
  Rotation rotation = Rotation::kPre;
  double attention_factor = 1.0;  ///< A_x of theory §1: the grid's A for a `pre` side, 1 for a `post` side
};

class SlotPhases;

/// Everything about a head but its vectors.
struct HeadSetting {
  const LayerModel* layer = nullptr;
  const spectral::LaneMap* lanes = nullptr;
  SideSource query, key;
  /// Where the head is changed (head_change.hpp): the lanes of its unchanged grid, by which `post` sides were
  /// turned, with their phases (may be null), if that is another; and factors [n_freq] of the queries' pairs.
  const spectral::LaneMap* stored_lanes = nullptr;
  const SlotPhases* stored_phases = nullptr;
  const double* query_scale = nullptr;

  /// c A_q A_k and c: what multiplies rotary products and plain tail products.
  double rotary_scale() const { return layer->logit_scale * query.attention_factor * key.attention_factor; }
  double tail_scale() const { return layer->logit_scale; }
};

/// e^{i p omega_n} of the tokens of one example part on one grid; the heads of its layers share them, from
/// any thread. Sides of very many tokens are made by parts when asked for, so that memory stays bounded.
class SlotPhases {
 public:
  SlotPhases(const PartSlots& slots, const spectral::LaneMap& lanes) : slots_(&slots), lanes_(&lanes) {}
  /// Phases of tokens [first, first + count) of a side; token `first` has column `column` of the result.
  std::shared_ptr<const spectral::PhaseColumns> get(ActivationFile::Side side, std::int64_t first,
                                                    std::int64_t count, std::size_t& column) const;
  /// Of all that is kept, at most.
  static std::int64_t bytes_of(const PartSlots& slots, std::size_t n_freq);

 private:
  struct Kept {
    std::once_flag once;
    std::shared_ptr<const spectral::PhaseColumns> phases;
  };
  const PartSlots* slots_;
  const spectral::LaneMap* lanes_;
  mutable Kept query_, key_;
};

/// Content vectors of a head as columns: converted, un-rotated by the token's own position, reversed angles
/// turned forward, the weightless norm after the rotation and (queries) the temperature applied; the queries
/// hold the logit scale too, so that products are scores. NaN and infinities pass through.
///
/// Vectors are loaded when first asked for and shared by the pairs and triplets of the head: all of them
/// where they are few, else those of one run at a time. One object per thread, reused from head to head; what
/// a call returns holds until the next call.
class HeadVectors {
 public:
  /// few_values: a head of at most so many values is held at once.
  explicit HeadVectors(std::size_t few_values = std::size_t{1} << 18) : few_values_(few_values) {}

  /// Takes up a head. slots, phases and what head points to must live until the last use of this object;
  /// phases may be null: they are then made here where they are needed. Keys are kept where the last head had
  /// the same.
  void assign(const HeadSetting& head, const PartSlots& slots, const SlotPhases* phases);

  const HeadSetting& head() const { return head_; }
  const PartSlots& slots() const { return *slots_; }

  /// A query against keys [first_key, first_key + count) of its slots.
  struct PairColumns {
    spectral::PairRun run;                                                         ///< without lanes
    const spectral::VectorColumns *turned_query = nullptr, *turned_key = nullptr;  ///< where asked for
    const spectral::ColumnModuli *query_moduli = nullptr, *key_moduli = nullptr;   ///< of a QueryRun
  };
  PairColumns pairs(std::int64_t query, std::int64_t first_key, std::int64_t count, bool turned);
  /// A run of pairs, with the moduli that measuring it takes.
  PairColumns pairs(const QueryRun& run, bool turned);

  /// Queries against key pairs [first, first + count).
  struct TripletColumns {
    spectral::PairRun run;  ///< without lanes; `key` holds k_1 - k_2
    const spectral::VectorColumns *first_key = nullptr, *second_key = nullptr;  ///< columns as those of `key`
    const spectral::ColumnBounds *query_bounds = nullptr, *pair_bounds = nullptr;  ///< of all columns
    spectral::RoundingUnits units;
    const char* query_is_zero = nullptr;  ///< [queries]
    const char* key_is_zero = nullptr;    ///< [count] one of the two keys is a zero vector
    const double *first_constant = nullptr,
                 *second_constant = nullptr;  ///< [queries][count] c_0 with each of the keys
  };
  TripletColumns triplets(const QueryRun& run);

 private:
  using Side = ActivationFile::Side;
  struct Loaded {
    std::int64_t first = 0, end = 0;  // tokens held
    spectral::VectorColumns columns, turned;
    spectral::ColumnModuli moduli;
    spectral::ColumnBounds bounds;
    std::vector<char> is_zero;
    bool has_turned = false, has_moduli = false, has_bounds = false;
  };
  struct KeyPairs {
    std::int64_t first = 0, end = 0;  // key pairs held
    Loaded first_key, second_key;
    spectral::VectorColumns difference;
    spectral::ColumnBounds bounds;
    std::vector<char> is_zero;
    std::vector<double> constants;  // [2][queries][count] of the last run
  };

  PairColumns columns_of(const QueryRun& run, bool turned);
  void need(Side side, std::int64_t first, std::int64_t count, bool turned);
  spectral::RoundingUnits rounding_units() const;
  void need_key_pairs(std::int64_t first, std::int64_t count);
  void load(Side side, const std::vector<std::int64_t>& tokens, Loaded& to);
  std::shared_ptr<const spectral::PhaseColumns> phases_of(Side side, const std::vector<std::int64_t>& tokens,
                                                          bool stored, std::size_t& column) const;
  void change_queries(spectral::VectorColumns& columns) const;

  HeadSetting head_;
  const PartSlots* slots_ = nullptr;
  const SlotPhases* phases_ = nullptr;
  std::size_t few_values_;
  bool few_ = false;  // all vectors of the head are held at once
  Loaded query_, key_;
  KeyPairs key_pairs_;
  std::vector<std::int64_t> tokens_;
  std::vector<double> rows_;
  spectral::VectorColumns stored_;  // in the order of the unchanged grid
};

}  // namespace rope
