#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/error.hpp"
#include "profiler/hdf5_handle.hpp"

namespace rope {

/// A group, and its path for messages.
struct Hdf5Group {
  Hdf5Handle handle;
  std::string path;
};

/// A filter of a chunked dataset: HDF5's number, and its first value (shuffle: bytes of an element).
struct Hdf5Filter {
  int id = 0;
  unsigned value = 0;
};

/// A dataset whose storage and claimed size were checked.
struct Hdf5Dataset {
  Hdf5Handle handle, type;
  std::string path;
  std::vector<std::int64_t> shape;  ///< empty = scalar
  H5T_class_t type_class = H5T_NO_CLASS;
  std::size_t element_bytes = 0;
  bool contiguous = false;
  std::int64_t offset = -1;         ///< first byte in the file where contiguous and written, else -1
  std::vector<std::int64_t> chunk;  ///< empty unless chunked
  bool filtered = false;
  std::vector<Hdf5Filter> filters;                 ///< in the order of writing
  bool uniform_chunks = true;                      ///< false: chunks at the edge may go without the filters
  mutable std::set<std::vector<hsize_t>> checked;  ///< chunks known to decode to their size, the last ones
};

/// Whose files are read. Files that only this tool writes need less, so more is refused in them: soft links,
/// text of variable length (its references into the file's heap cannot be checked, and HDF5 1.10 crashes on
/// damaged ones), filters other than shuffle and deflate, chunks over 64 MiB.
enum class Hdf5Rules { kAnyWriter, kOwnFiles };

/// An HDF5 file opened for careful reading, shared by the readers of caches and of profiles. Every access is
/// checked before use: only hard links (or soft links to a neighbour in the same group) are followed; virtual
/// and external storage, missing filters, and sizes that the file cannot hold are refused. Every failure is a
/// UserError with the file, the HDF5 path, what was expected and what was found. The file may be open for
/// writing in this process; what was flushed can be read.
class Hdf5Source {
 public:
  explicit Hdf5Source(const std::string& path, Hdf5Rules rules = Hdf5Rules::kAnyWriter);
  ~Hdf5Source();
  Hdf5Source(const Hdf5Source&) = delete;
  Hdf5Source& operator=(const Hdf5Source&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t bytes() const;  ///< size of the file now: a profile grows while it is read

  Hdf5Group root() const;
  std::vector<std::string> names(const Hdf5Group& group) const;  ///< of its links, sorted
  bool has(const Hdf5Group& group, const std::string& name) const;
  Hdf5Group group(const Hdf5Group& parent, const std::string& name) const;
  /// Compressed chunks are decoded once for rows read in order: those of one index of the first axis are kept
  /// (up to 64 MiB, or one chunk). `cache_rows`: plain ones, too, for readers that take a row in pieces.
  Hdf5Dataset dataset(const Hdf5Group& parent, const std::string& name, bool cache_rows = false) const;
  std::uint64_t identity(const Hdf5Group& group) const;  ///< equal for two names of one object

  /// Attributes of a group or dataset; nullopt when absent. Strings may be of fixed or variable length,
  /// values scalars or arrays of one element, integers stored as whole floats.
  std::optional<std::string> text(hid_t object, const std::string& object_path,
                                  const std::string& name) const;
  std::optional<std::int64_t> integer(hid_t object, const std::string& object_path,
                                      const std::string& name) const;
  std::optional<double> number(hid_t object, const std::string& object_path, const std::string& name) const;
  /// All attributes of a group, which must be text, in the order in which they were made.
  std::vector<std::pair<std::string, std::string>> texts(const Hdf5Group& group) const;
  /// Names of an object's attributes, sorted; what is damaged is left out.
  std::vector<std::string> attribute_names(hid_t object) const;

  /// Hyperslab [start, start + count) of every axis into `out`, rows packed; `memory_type` decides the
  /// element's form.
  void read(const Hdf5Dataset& set, hid_t memory_type, const std::vector<std::int64_t>& start,
            const std::vector<std::int64_t>& count, void* out) const;
  /// The chunk that starts at `origin` as it is stored, and the filters that it went without (bit i: filter
  /// i). False when it was never written.
  bool read_stored_chunk(const Hdf5Dataset& set, const std::vector<std::int64_t>& origin,
                         std::vector<std::byte>& stored, std::uint32_t& skipped) const;
  /// Bytes straight from the file (`offset` of a contiguous dataset).
  void read_bytes(const Hdf5Dataset& set, std::int64_t offset, std::size_t count, void* out) const;
  /// Any integer type, as int64 (unsigned values beyond it become its largest value).
  std::vector<std::int64_t> read_integers(const Hdf5Dataset& set, const std::vector<std::int64_t>& start,
                                          const std::vector<std::int64_t>& count) const;
  std::vector<double> read_doubles(const Hdf5Dataset& set, const std::vector<std::int64_t>& start,
                                   const std::vector<std::int64_t>& count) const;
  std::vector<double> read_doubles(const Hdf5Dataset& set) const;  ///< all of it: small datasets only
  std::vector<std::string> read_texts(const Hdf5Dataset& set, std::int64_t first, std::int64_t count) const;

  void require_shape(const Hdf5Dataset& set, const std::vector<std::int64_t>& shape,
                     const std::string& meaning) const;
  void require_integers(const Hdf5Dataset& set) const;
  void require_floats(const Hdf5Dataset& set) const;
  void require_texts(const Hdf5Dataset& set, std::size_t longest = 4096) const;  ///< bytes of one text
  /// Before a dataset is read whole: decoded it must not be larger than the file.
  void require_small(const Hdf5Dataset& set) const;

  UserError error(const std::string& where, const std::string& expected, const std::string& found,
                  const std::string& hint = {}) const;

 private:
  void check_link(const Hdf5Group& parent, const std::string& name) const;
  void check_storage(Hdf5Dataset& set, hid_t plist) const;
  void check_filters(Hdf5Dataset& set, hid_t plist) const;
  void check_size(const Hdf5Dataset& set) const;
  void check_chunks(const Hdf5Dataset& set, const std::vector<hsize_t>& first,
                    const std::vector<hsize_t>& size) const;
  void check_decoded_size(const Hdf5Dataset& set, const std::vector<hsize_t>& origin) const;
  hsize_t stored_bytes(const Hdf5Dataset& set, const std::vector<hsize_t>& origin) const;
  Hdf5Handle one_value(hid_t object, const std::string& where, const std::string& name) const;

  std::string path_;
  Hdf5Rules rules_;
  int descriptor_ = -1;
  Hdf5Handle file_;
  Hdf5Handle transfer_;  // how blocks are read
};

/// "[12, 30, 9, 4, 64]"
std::string shape_text(const std::vector<std::int64_t>& shape);
/// An integer or float of at most 8 bytes without gaps: sign on top, then exponent, then mantissa. Others are
/// legal HDF5, but no writer makes them and the library's conversion of damaged ones crashes.
bool is_plain_number(hid_t type);
/// "32-bit integer", "text", "compound", ...
std::string type_text(hid_t type);

}  // namespace rope
