// SPDX-License-Identifier: Apache-2.0
#include "cli/options/inputs.h"

#include <filesystem>
#include <iostream>
#include <iterator>

#include "audio/sound.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "images/image.h"

namespace transom {
namespace {

void add_folder(InputKind kind, const std::string& folder, std::vector<std::string>& inputs) {
  std::vector<std::string> files, skipped;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error) fail("{}: the folder cannot be read: {}", folder, error.message());
  for (const auto& entry : entries) {
    if (entry.is_directory()) skipped.push_back(entry.path().filename().string());
    else if (kind == InputKind::kImage ? is_image_name(entry.path()) : is_sound_name(entry.path()))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::sort(skipped.begin(), skipped.end());
  if (!skipped.empty())
    log(LogLevel::kWarning, fmt::format("{}: sub-folders are not read: {}", folder, fmt::join(skipped, ", ")));
  if (files.empty())
    fail("{}: the folder holds no {}", folder, kind == InputKind::kImage ? "image file" : "sound file");
  inputs.insert(inputs.end(), files.begin(), files.end());
}

bool is_text(InputKind kind) { return kind == InputKind::kText || kind == InputKind::kSentences; }

void add_word(InputKind kind, const std::string& word, std::vector<std::string>& inputs) {
  std::error_code none;
  if (word == "-") {
    for_each_input_line([&](const std::string& line) { inputs.push_back(line); });
  } else if (!is_text(kind) && fs::is_directory(word, none)) {
    add_folder(kind, word, inputs);
  } else {
    if (is_text(kind) && fs::is_regular_file(word, none))
      log(LogLevel::kWarning, fmt::format("{} is a file, and is taken as a text; --file {} reads the lines of the file",
                                          quoted(word), word));
    inputs.push_back(word);
  }
}

}  // namespace

std::vector<std::string> read_inputs(InputKind kind, const std::vector<std::string>& words,
                                     const std::optional<std::string>& file) {
  std::vector<std::string> inputs;
  for (const std::string& word : words) add_word(kind, word, inputs);
  if (file)
    for_each_line(MappedFile::open(*file)->text(), [&](std::string_view line, size_t) { inputs.emplace_back(line); });
  return inputs;
}

void for_each_input_line(const std::function<void(const std::string&)>& take) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    take(line);
  }
}

std::string read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace transom
