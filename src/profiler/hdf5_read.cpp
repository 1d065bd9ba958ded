// Opening files and following links; attributes are in hdf5_attributes.cpp, datasets in hdf5_datasets.cpp.
#include "profiler/hdf5_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "profiler/clean_text.hpp"
#include "profiler/lzf.hpp"

namespace rope {
namespace {

/// More links than this in one group is no cache; the limit also ends a walk over a damaged, cyclic index.
constexpr std::size_t kMostLinks = 100000;

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  names.emplace_back(name);
  return names.size() > kMostLinks ? 1 : 0;
}

std::string first_bytes(int descriptor) {
  std::array<char, 8> start{};
  const ssize_t count = pread(descriptor, start.data(), start.size(), 0);
  return count <= 0 ? "an empty file"
                    : "a file that starts with " + quoted({start.data(), static_cast<std::size_t>(count)});
}

}  // namespace

Hdf5Source::Hdf5Source(const std::string& path, Hdf5Rules rules) : path_(path), rules_(rules) {
  silence_hdf5();
  register_lzf();
  if (path == "-") throw usage_error("HDF5 cannot be read from a pipe", "name a file; ./- is a file named -");
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw UserError(path + ": cannot open: " + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) throw error("", "an HDF5 file", "a folder");
  if (!S_ISREG(info.st_mode)) throw error("", "an HDF5 file", "a pipe, socket or device");
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw UserError(path + ": cannot open: " + std::strerror(errno));
  try {
    if (H5Fis_hdf5(path.c_str()) <= 0) throw error("", "an HDF5 file", first_bytes(descriptor_));
    file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    if (!file_.valid())
      throw UserError(path + ": cannot read as HDF5: " + hdf5_error_text(),
                      "the file may be truncated, damaged, or still open in the program that writes it");
    // The library clears its buffer for conversions, 1 MiB by default, for every dataset that it reads.
    transfer_ = Hdf5Handle(H5Pcreate(H5P_DATASET_XFER));
    H5Pset_buffer(transfer_.get(), std::size_t{1} << 14, nullptr, nullptr);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

Hdf5Source::~Hdf5Source() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::int64_t Hdf5Source::bytes() const {
  struct stat info {};
  return fstat(descriptor_, &info) == 0 ? info.st_size : 0;
}

UserError Hdf5Source::error(const std::string& where, const std::string& expected, const std::string& found,
                            const std::string& hint) const {
  const bool foreign = hint.empty() && rules_ == Hdf5Rules::kOwnFiles;
  return input_error(path_, where, expected, found,
                     foreign ? "was this file written by rope-profiler, and is it whole?" : hint);
}

Hdf5Group Hdf5Source::root() const {
  Hdf5Group root{Hdf5Handle(H5Gopen2(file_.get(), "/", H5P_DEFAULT)), "/"};
  if (!root.handle.valid()) throw error("/", "a root group", "damage: " + hdf5_error_text());
  return root;
}

static std::string join(const Hdf5Group& group, const std::string& name) {
  return group.path == "/" ? "/" + name : group.path + "/" + name;
}

std::vector<std::string> Hdf5Source::names(const Hdf5Group& group) const {
  std::vector<std::string> names;
  hsize_t at = 0;
  if (H5Literate(group.handle.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &at, collect_name, &names) < 0)
    throw error(group.path, "a readable group", "damage: " + hdf5_error_text());
  if (names.size() > kMostLinks)
    throw error(group.path, "at most " + std::to_string(kMostLinks) + " links", "more");
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end())
    throw error(group.path, "link names that differ", "one name twice");
  return names;
}

bool Hdf5Source::has(const Hdf5Group& group, const std::string& name) const {
  const htri_t found = H5Lexists(group.handle.get(), name.c_str(), H5P_DEFAULT);
  if (found < 0) throw error(group.path, "a readable group", "damage: " + hdf5_error_text());
  return found > 0;
}

void Hdf5Source::check_link(const Hdf5Group& parent, const std::string& name) const {
  const std::string where = join(parent, name);
  std::string target = name;
  for (int step = 0; step < 2; ++step) {
    if (!has(parent, target))
      throw error(where, "an object of this name", step == 0 ? "nothing" : "a dangling soft link");
    H5L_info_t link;
    if (H5Lget_info(parent.handle.get(), target.c_str(), &link, H5P_DEFAULT) < 0)
      throw error(where, "a readable link", "damage: " + hdf5_error_text());
    if (link.type == H5L_TYPE_HARD) return;
    if (link.type == H5L_TYPE_EXTERNAL) throw error(where, "an object of this file", "an external link");
    if (link.type != H5L_TYPE_SOFT) throw error(where, "an object of this file", "a user-defined link");
    if (rules_ == Hdf5Rules::kOwnFiles) throw error(where, "an object of this file", "a soft link");
    constexpr std::size_t kLongest = 4096;
    if (step > 0 || link.u.val_size == 0 || link.u.val_size > kLongest)
      throw error(where, "an object of this group", "a chain of soft links");
    std::string value(link.u.val_size, '\0');
    if (H5Lget_val(parent.handle.get(), target.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0)
      throw error(where, "a readable link", "damage: " + hdf5_error_text());
    target = value.substr(0, value.find('\0'));
    if (target.empty() || target == "." || target.find('/') != std::string::npos)
      throw error(where, "an object of this group", "a soft link to " + quoted(target));
  }
}

Hdf5Group Hdf5Source::group(const Hdf5Group& parent, const std::string& name) const {
  check_link(parent, name);
  const std::string where = join(parent, name);
  Hdf5Group group{Hdf5Handle(H5Oopen(parent.handle.get(), name.c_str(), H5P_DEFAULT)), where};
  if (!group.handle.valid()) throw error(where, "a group", "damage: " + hdf5_error_text());
  if (H5Iget_type(group.handle.get()) != H5I_GROUP) throw error(where, "a group", "a dataset or type");
  return group;
}

std::uint64_t Hdf5Source::identity(const Hdf5Group& group) const {
  const auto damaged = [&] { return error(group.path, "a readable group", "damage: " + hdf5_error_text()); };
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  if (H5Oget_info3(group.handle.get(), &info, H5O_INFO_BASIC) < 0) throw damaged();
  std::uint64_t address = 0;
  std::memcpy(&address, &info.token, sizeof(address));
  return address;
#else
  H5O_info_t info;
  if (H5Oget_info2(group.handle.get(), &info, H5O_INFO_BASIC) < 0) throw damaged();
  return info.addr;
#endif
}

}  // namespace rope
