#include "cli/output.hpp"

#include <fstream>
#include <optional>
#include <ostream>
#include <streambuf>
#include <vector>

#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

/// A stream into an AtomicFile, which reports its own failures.
class AtomicBuffer : public std::streambuf {
 public:
  explicit AtomicBuffer(AtomicFile& file) : file_(file), buffer_(std::size_t{1} << 16) { reset(); }

 protected:
  int_type overflow(int_type c) override {
    sync();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    const std::string_view bytes(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    reset();
    if (!bytes.empty()) file_.write(bytes);
    return 0;
  }

 private:
  void reset() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  AtomicFile& file_;
  std::vector<char> buffer_;
};

}  // namespace

struct Output::Impl {
  Console* console;
  std::string path;
  std::optional<AtomicFile> file;
  std::optional<AtomicBuffer> buffer;
  std::optional<std::ostream> stream;
};

void add_output_options(CLI::App& app, OutputOptions& options, const std::string& what, bool required) {
  app.add_option("-o,--output", options.path, "file for " + what + "; - writes to standard output")
      ->type_name("FILE")
      ->required(required)
      ->check(
          [](const std::string& path) { return path.empty() ? "the file name is empty" : std::string(); });
  app.add_flag("--force", options.force, "replace an existing output");
}

void add_json_option(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print JSON in place of a table");
}

Output::Output(Console& console, const OutputOptions& options, Content content)
    : impl_(std::make_unique<Impl>()) {
  impl_->console = &console;
  impl_->path = options.path;
  if (!options.path.empty() && options.path != "-") {
    impl_->file.emplace(options.path, options.force);
    impl_->buffer.emplace(*impl_->file);
    impl_->stream.emplace(&*impl_->buffer);
    impl_->stream->exceptions(std::ios::badbit);
  } else if (content == Content::kBinary && console.streams().out_is_terminal) {
    throw usage_error("binary output does not go to a terminal", "name a file with -o, or pipe the output");
  }
}

Output::~Output() = default;

bool Output::to_standard_output() const { return !impl_->file; }

std::ostream& Output::stream() { return impl_->stream ? *impl_->stream : impl_->console->out(); }

void Output::append_file(const std::string& path) {
  std::ifstream from(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 20);
  while (from) {
    from.read(block.data(), static_cast<std::streamsize>(block.size()));
    stream().write(block.data(), from.gcount());
  }
  if (!from.eof() || from.bad()) throw UserError(path + ": cannot be read back");
}

void Output::commit() {
  stream().flush();
  if (!impl_->file) return;
  impl_->file->commit();
  impl_->console->note("wrote " + impl_->path);
}

}  // namespace rope::cli
