#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profiler/atomic_file.hpp"

namespace rope {

/// Values per (task, example, head) of a profile. NaN = not computed or not defined.
enum class Score : int {
  kSemantic,         ///< 1 - mean Gaussian reversal
  kExactSemantic,    ///< 1 - mean exact reversal (--exact-reversal)
  kReversalGap,      ///< mean over triplets of |Gaussian - exact| (theory §3, Delta_rev)
  kPositional,       ///< mean normalised adjacent response
  kResponseMax,      ///< mean over pairs of zeta
  kNormShare,        ///< r_H
  kEffectiveLength,  ///< virtual E_2
  kUsageCov,         ///< CoV of u_n, with phase
  kUsageCentroid,
  kUsageNormCov,  ///< the same of mean |z_n|
  kUsageNormCentroid,
  kFrequencyMass,
  kAliasing,
  kAliasingF16,
  kNearFarOrder,  ///< exact p_ord (theory §11)
  kNearFarGaussian,
  kBarrierExceedance,  ///< exact p_exc(S_0) (theory §11)
  kBarrierGaussian,    ///< with the exact moments
  kBarrierLimit,       ///< P (45): with the variance of the fast pairs replaced by its limit
  kCount
};
/// Counts per (task, example, head).
enum class Count : int {
  kTriplets,
  kTies,
  kUndefinedTriplets,
  kNonFiniteTriplets,
  kFragile,
  kPairs,
  kUndefinedPairs,
  kNonFinitePairs,
  kHighPairs,
  kLayerWindow,
  kCount
};

/// Dataset name, unit ("1", "tokens", ...) and one-sentence meaning of a value or count.
struct ColumnInfo {
  const char* name;
  const char* unit;
  const char* meaning;
};
const ColumnInfo& column(Score score);
const ColumnInfo& column(Count count);

/// One attention head of the profile, layer-major. Only heads of layers stored in some cache are listed.
struct ProfileHead {
  int layer = 0, head = 0;
  bool rotates = true;
  bool operator==(const ProfileHead&) const = default;
};

/// Facts of a layer, for the reader of a profile.
struct ProfileLayer {
  int layer = 0;
  std::string kind, rope_type;
  double theta = 0, attention_factor = 1, logit_scale = 0, softcap = 0;
  std::int64_t window = 0;
  int pairs = 0, rotary_dim = 0, head_dim = 0, query_heads = 0, kv_heads = 0;
  bool norm_after_rotation = false;  ///< queries and keys are normalised between the rotation and the product
};

/// Frequencies that some heads ran with.
struct ProfileGrid {
  std::vector<double> omega;                 ///< [h] rad/token, every pair, zeros too
  double rho = 0.0, attention_factor = 1.0;  ///< theory §5 and §1
  bool operator==(const ProfileGrid&) const = default;
};

/// Who ran with a grid.
struct GridUse {
  int layer = 0, head = -1;  ///< head -1: every head of the layer
  std::int64_t window = 0;   ///< 0: at any length, else in examples of so many tokens (dynamic, longrope)
  int grid = 0;              ///< index into ProfileHeader::grids
  bool operator==(const GridUse&) const = default;
};

struct ProfileInput {
  std::string name;
  std::string sha256;  ///< lower-case hex; empty under --digest none
  std::int64_t bytes = 0;
};

/// Settings that decided the numbers, as text (option name -> value), in a fixed order.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct ProfileHeader {
  std::string tool_version, model_name, model_type;
  std::string rope_layout;  ///< "half", "interleaved"; empty: written before profiles held it
  int num_layers = 0;
  Settings settings;
  std::vector<std::string> warnings;
  std::vector<ProfileLayer> layers;
  std::vector<ProfileHead> heads;  ///< N heads
  std::vector<ProfileGrid> grids;  ///< each once; empty: written before profiles held them
  std::vector<GridUse> grid_uses;  ///< of every rotating head, by layer, head, window

  /// The grid of a head in an example of `window` tokens; nullptr where the profile does not tell.
  const ProfileGrid* grid(int layer, int head, std::int64_t window) const;
};

struct ProfileTask {
  std::string name, family, source;
  std::int64_t nominal_length = 0;
  std::vector<int> layers;  ///< model layers stored for this task (union over its files)
  std::int64_t examples = 0;
};

/// Frequency use of a task on one grid: means over examples, per head.
struct UsageSpectrum {
  std::vector<double> omega;           ///< [h] every pair, zeros too
  std::vector<std::int64_t> heads;     ///< [G] indexes into ProfileHeader::heads
  std::vector<std::int64_t> examples;  ///< [G] how many examples each mean is over
  std::vector<double> usage;           ///< [G, h] mean over examples of u_n; NaN for pairs that do not rotate
  std::vector<double> usage_norm;      ///< [G, h] mean over examples of mean |z_n|
};

/// The ranking of heads by variance of r_H over tasks (theory §6).
struct HeadSelection {
  std::string rule;                 ///< "all", "top:0.05", "list", "selection:FILE"
  std::vector<char> selected;       ///< [N]
  std::vector<double> variance;     ///< [N] nu_h; NaN = not counted or undefined
  std::vector<std::int64_t> order;  ///< counted, selectable heads in falling variance
  std::int64_t counted = 0;         ///< heads that the fraction is taken of
  std::vector<char> status;         ///< [N] HeadStatus
};
enum class HeadStatus : char { kRanked = 0, kNoRotation = 1, kMissingInTask = 2, kUndefinedInTask = 3 };

/// Writes a profile (docs/profile-format.md) aside and puts it in place on commit(). Object time stamps are
/// off and the order of writes is the caller's, so equal content gives equal bytes. Values not put stay NaN,
/// counts 0. Memory does not grow with the number of examples.
class ProfileWriter {
 public:
  /// `path` empty: a scratch file that vanishes with the writer (profile without -o).
  ProfileWriter(const std::string& path, bool force, const ProfileHeader& header);
  ~ProfileWriter();

  void add_task(const ProfileTask& task);  ///< tasks in name order
  /// Example rows in rising order, each once, before flush().
  void put_example(const std::string& task, std::int64_t row, const std::string& id, std::int64_t window);
  /// One value per head [N] (all heads, NaN where absent) of one example row. May be called again for the
  /// same row, also after flush(). Fastest task by task.
  void put(const std::string& task, Score score, std::int64_t row, std::span<const double> values);
  void put(const std::string& task, Count count, std::int64_t row, std::span<const std::int64_t> values);
  void put_usage(const std::string& task, const std::vector<UsageSpectrum>& spectra);
  void put_selection(const HeadSelection& selection);
  void put_inputs(const std::vector<ProfileInput>& inputs);
  /// Makes what was put so far readable; returns the path for a ProfileReader, which may stay open while
  /// more is put. Missing rows of put_example count as empty ids from here on.
  std::string flush();
  /// Closes, syncs and renames into place. Without it nothing appears.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads a profile by blocks of examples. Treats the file as hostile, as ActivationFile does: UserError names
/// file and HDF5 path. Columns that were never put read as NaN and 0; a selection that was never put selects
/// nothing.
class ProfileReader {
 public:
  explicit ProfileReader(const std::string& path);
  ~ProfileReader();
  ProfileReader(ProfileReader&&) noexcept;

  const std::string& path() const;
  const ProfileHeader& header() const;
  const std::vector<ProfileTask>& tasks() const;  ///< sorted by name
  const std::vector<ProfileInput>& inputs() const;
  const HeadSelection& selection() const;

  std::vector<std::string> example_ids(const ProfileTask& task, std::int64_t first, std::int64_t count) const;
  std::vector<std::int64_t> windows(const ProfileTask& task, std::int64_t first, std::int64_t count) const;
  /// [count, N] row-major.
  std::vector<double> read(const ProfileTask& task, Score score, std::int64_t first,
                           std::int64_t count) const;
  std::vector<std::int64_t> read(const ProfileTask& task, Count what, std::int64_t first,
                                 std::int64_t count) const;
  std::vector<UsageSpectrum> usage(const ProfileTask& task) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope
