#include "profiler/atomic_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "profiler/error.hpp"
#include "profiler/output_registry.hpp"

namespace rope {
namespace {

std::string reason() { return std::strerror(errno); }

UserError cannot_write(const std::string& path, const std::string& why, const std::string& hint = {}) {
  return UserError(path + ": cannot write: " + why, hint);
}

/// A file must be known to the signal handler from the moment it exists.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, &old_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t old_;
};

/// Descriptor behind /dev/stdout, /dev/stderr or /dev/fd/N; -1 for other names. Opening these names anew
/// would start at offset 0 of a redirected file.
int descriptor_named(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    if (path.rfind(prefix, 0) != 0) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    const auto parsed = std::from_chars(path.data() + prefix.size(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) return number;
  }
  return -1;
}

/// 0, or the error number.
int write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return 0;
}

mode_t default_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

/// The end of a chain of links; a dangling link gives the name it points to.
std::filesystem::path follow_links(std::filesystem::path path) {
  std::error_code ignored;
  for (int hops = 0; hops < 40 && std::filesystem::is_symlink(path, ignored); ++hops) {
    const auto target = std::filesystem::read_symlink(path, ignored);
    if (ignored) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, bool force) : path_(path), shown_(path), force_(force) {
  if (path.empty()) {
    shown_ = "scratch file";
    open_aside(temporary_folder(), "rope-profiler");
    return;
  }
  if (path.find('\0') != std::string::npos) throw usage_error("an output name cannot hold a NUL byte");
  if (path.back() == '/') throw usage_error(path + ": is a folder, not a file", "name a file inside it");
  if (descriptor_named(path) >= 0) {
    special_ = true;
    open_aside(temporary_folder(), "rope-profiler");
    return;
  }
  const std::filesystem::path target = follow_links(path);
  path_ = target.string();
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode))
      throw usage_error(path + ": is a folder, not a file", "name a file inside it");
    if (!S_ISREG(status.st_mode)) {
      special_ = true;
      if (::access(path_.c_str(), W_OK) != 0) throw cannot_write(shown_, reason());
      open_aside(temporary_folder(), "rope-profiler");
      return;
    }
    if (!force) throw usage_error(path + ": exists already", "give --force to replace it, or another name");
  } else if (errno != ENOENT) {
    throw cannot_write(shown_, reason());
  }
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  open_aside(folder, target.filename().string());
  if (force && S_ISREG(status.st_mode)) fchmod(fd_, status.st_mode & 07777);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      shown_(std::move(other.shown_)),
      force_(other.force_),
      special_(other.special_),
      done_(std::exchange(other.done_, true)),
      fd_(std::exchange(other.fd_, -1)),
      slot_(std::exchange(other.slot_, -1)) {}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::open_aside(const std::string& folder, const std::string& stem) {
  // 200 bytes leave room for the suffix within the usual limit of 255.
  partial_ = (std::filesystem::path(folder) / (stem.substr(0, 200) + ".partial-XXXXXX")).string();
  const SignalsHeld held;
  fd_ = mkostemp(partial_.data(), O_CLOEXEC);
  if (fd_ < 0) {
    done_ = true;
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      throw cannot_write(shown_, "there is no folder " + folder, "make the folder first");
    throw cannot_write(shown_, std::strerror(error) + std::string(" (folder ") + folder + ")");
  }
  slot_ = detail::remember_partial(partial_);
  if (!path_.empty() && !special_) fchmod(fd_, default_mode());
}

void AtomicFile::write(std::string_view bytes) {
  if (const int error = write_all(fd_, bytes.data(), bytes.size()))
    throw cannot_write(shown_, std::strerror(error));
}

void AtomicFile::commit() {
  if (done_) return;
  if (path_.empty()) return;  // scratch: removed by the destructor
  if (special_) {
    copy_to_special();
  } else {
    if (fsync(fd_) != 0) throw cannot_write(shown_, reason());
    rename_into_place();
  }
  discard();
}

void AtomicFile::copy_to_special() {
  const int named = descriptor_named(path_);
  const int out = named >= 0 ? dup(named) : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (out < 0) throw cannot_write(shown_, reason());
  std::array<char, 1 << 16> buffer;
  off_t offset = 0;
  int error = 0;
  for (ssize_t n; error == 0 && (n = pread(fd_, buffer.data(), buffer.size(), offset)) > 0; offset += n)
    error = write_all(out, buffer.data(), static_cast<std::size_t>(n));
  ::close(out);
  // A closed pipe: the reader has had enough, which is a quiet end.
  if (error != 0 && error != EPIPE) throw cannot_write(shown_, std::strerror(error));
}

void AtomicFile::rename_into_place() {
  const char *from = partial_.c_str(), *to = path_.c_str();
  const SignalsHeld held;
  int result = -1;
  if (force_) {
    result = std::rename(from, to);
  } else {
    result = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {  // a file system without that flag
      result = link(from, to);
      if (result == 0) unlink(from);
    }
  }
  if (result != 0) {
    if (errno == EEXIST)
      throw UserError(shown_ + ": appeared while this program ran; it was left as it is",
                      "give --force to replace it, or another name", ExitCode::kUsage);
    throw cannot_write(shown_, reason());
  }
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);  // some file systems refuse it; the file itself is synced
    ::close(folder);
  }
  done_ = true;
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!done_ && !partial_.empty()) unlink(partial_.c_str());
  done_ = true;
  detail::forget_partial(std::exchange(slot_, -1));
}

void require_output_is_no_input(const std::string& output, const std::vector<std::string>& inputs) {
  struct stat out {};
  if (output.empty() || ::stat(output.c_str(), &out) != 0 || !S_ISREG(out.st_mode)) return;
  for (const std::string& input : inputs) {
    struct stat in {};
    if (!input.empty() && ::stat(input.c_str(), &in) == 0 && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino)
      throw usage_error(output + ": the output is the input " + input,
                        "choose another name; --force does not help here");
  }
}

}  // namespace rope
