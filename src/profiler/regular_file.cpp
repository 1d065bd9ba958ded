#include "profiler/regular_file.hpp"

#include <filesystem>

#include "profiler/error.hpp"

namespace rope {

void require_regular_file(const std::string& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  using Type = std::filesystem::file_type;
  if (type == Type::directory)
    throw UserError(path + ": expected a regular file, found a folder", "name the file inside it");
  if (type == Type::fifo || type == Type::character || type == Type::socket || type == Type::block)
    throw UserError(path + ": expected a regular file, found a pipe or device",
                    "write it to a file first: it is read more than once");
}

}  // namespace rope
