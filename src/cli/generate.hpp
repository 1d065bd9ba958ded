#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_app.hpp"

namespace rope::cli {

/// Documents made from the command table, so that none can fall behind it.
std::string man_page(const std::vector<std::unique_ptr<CommandApp>>& commands);
std::string markdown_reference(const std::vector<std::unique_ptr<CommandApp>>& commands);
std::string bash_completion(const std::vector<std::unique_ptr<CommandApp>>& commands);
std::string zsh_completion(const std::vector<std::unique_ptr<CommandApp>>& commands);
std::string fish_completion(const std::vector<std::unique_ptr<CommandApp>>& commands);

/// `rope-profiler --generate KIND`: man, markdown, bash, zsh or fish. Throws UserError (usage).
std::string generate(const std::string& kind, const std::vector<std::unique_ptr<CommandApp>>& commands);

/// A paragraph of Command::details(): text, or lines to be shown as they are.
struct Paragraph {
  std::string text;
  bool verbatim = false;
};
std::vector<Paragraph> paragraphs(std::string_view details);

}  // namespace rope::cli
