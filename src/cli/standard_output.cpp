#include "cli/standard_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rope::cli {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

}  // namespace

OutputError::OutputError(int error_number)
    : std::runtime_error("standard output: cannot write: " + std::generic_category().message(error_number)),
      closed_pipe_(error_number == EPIPE) {}

DescriptorBuffer::DescriptorBuffer(int descriptor) : descriptor_(descriptor), buffer_(kBufferBytes) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

void DescriptorBuffer::write_all(const char* text, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, text, count);
    if (written >= 0) {
      text += written;
      count -= static_cast<std::size_t>(written);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{descriptor_, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      throw OutputError(errno);
    }
  }
}

void DescriptorBuffer::flush_buffer() {
  const auto count = static_cast<std::size_t>(pptr() - pbase());
  setp(buffer_.data(), buffer_.data() + buffer_.size());  // also after a failure: nothing is written twice
  write_all(buffer_.data(), count);
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type c) {
  flush_buffer();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

std::streamsize DescriptorBuffer::xsputn(const char* text, std::streamsize count) {
  if (count > epptr() - pptr()) flush_buffer();
  if (count > epptr() - pptr()) {
    write_all(text, static_cast<std::size_t>(count));
  } else {
    traits_type::copy(pptr(), text, static_cast<std::size_t>(count));
    pbump(static_cast<int>(count));
  }
  return count;
}

int DescriptorBuffer::sync() {
  flush_buffer();
  return 0;
}

}  // namespace rope::cli
