// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/inputs.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "inputs/audio/sound.h"
#include "inputs/data/tables/row_format.h"
#include "inputs/images/image.h"

namespace transom {
namespace {

void add_folder(InputKind kind, const std::string& folder, std::vector<std::string>& inputs) {
  std::vector<std::string> files, skipped;
  for (const fs::path& entry : list_directory(folder)) {
    std::error_code none;
    if (fs::is_directory(entry, none)) skipped.push_back(entry.filename().string());
    else if (kind == InputKind::kImage ? is_image_name(entry) : is_sound_name(entry)) files.push_back(entry.string());
  }
  if (!skipped.empty())
    log(LogLevel::kWarning, fmt::format("{}: sub-folders are not read: {}", folder, fmt::join(skipped, ", ")));
  if (files.empty())
    fail("{}: the folder holds no {}", folder, kind == InputKind::kImage ? "image file" : "sound file");
  inputs.insert(inputs.end(), files.begin(), files.end());
}

bool is_text(InputKind kind) { return kind == InputKind::kText || kind == InputKind::kSentences; }

bool is_table(const std::string& file) {
  std::string ending = fs::path(file).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* known : {".csv", ".tsv", ".json", ".jsonl", ".ndjson"})
    if (ending == known) return true;
  return false;
}

void add_word(InputKind kind, const std::string& word, std::vector<std::string>& inputs) {
  std::error_code none;
  if (word == "-") {
    int64_t number = 0;
    for_each_input_line([&](const std::string& line) {
      check_utf8(line, "standard input", ++number);
      inputs.push_back(line);
    });
  } else if (!is_text(kind) && kind != InputKind::kVideo && fs::is_directory(word, none)) {
    add_folder(kind, word, inputs);
  } else {
    if (is_text(kind) && fs::is_regular_file(word, none))
      log(LogLevel::kWarning, fmt::format("{} is a file, and is taken as a text; --file {} reads {}", quoted(word),
                                          word, is_table(word) ? "its rows" : "its lines"));
    inputs.push_back(word);
  }
}

// The column of inputs by its name, or by what it is called in most files.
size_t input_column(const std::string& file, const std::vector<std::string>& columns,
                    const std::optional<std::string>& name) {
  const auto place = [&](const std::string& wanted) {
    return static_cast<size_t>(std::find(columns.begin(), columns.end(), wanted) - columns.begin());
  };
  if (name) {
    if (place(*name) < columns.size()) return place(*name);
    fail("{}: --text_column_name: expected one of the columns {}, found {}{}", file, fmt::join(columns, ", "),
         quoted(*name), did_you_mean(*name, columns));
  }
  for (const char* usual : {"text", "sentence"})
    if (place(usual) < columns.size()) return place(usual);
  if (columns.size() == 1) return 0;
  std::vector<std::string> names;
  for (const std::string& column : columns) names.push_back(quoted(column, 40));
  fail("{}: which column has the inputs? Say --text_column_name with one of {}; the first line is read as names", file,
       fmt::join(names, ", "));
}

// A .csv file as it is written: where the names stand in one field, and hold another separator, that is it.
std::unique_ptr<RowFormat> table_of(const std::string& file, std::string_view text,
                                    const std::optional<std::string>& name) {
  std::unique_ptr<RowFormat> format = format_of(file, text, {});
  const std::vector<std::string> columns = format->columns();
  if (columns.size() != 1 || columns[0] == name) return format;
  for (const char separator : {';', '\t', '|'}) {
    if (columns[0].find(separator) == std::string::npos) continue;
    log(LogLevel::kInfo, fmt::format("{}: fields are separated by {}", file,
                                     separator == '\t' ? "tabs" : quoted(std::string(1, separator))));
    return format_of(file, text, {.delimiter = separator});
  }
  return format;
}

void add_table(const std::string& file, std::string_view text, const std::optional<std::string>& name,
               std::vector<std::string>& inputs) {
  const std::unique_ptr<RowFormat> format = table_of(file, text, name);
  std::vector<std::string> columns = format->columns();
  std::optional<size_t> column;
  size_t position = format->start();
  Row row;
  int64_t rows = 0;
  for (int64_t number = 1; format->read(position, number, columns, row); ++number) {
    if (!column) column = input_column(file, columns, name);
    const std::string* input = *column < row.size() ? std::get_if<std::string>(&row[*column]) : nullptr;
    if (!input) fail("{}: row {}: column {}: expected a text", file, number, quoted(columns[*column]));
    inputs.push_back(*input);
    ++rows;
  }
  if (rows == 0) fail("{}: there are no rows", file);
  log(LogLevel::kInfo, fmt::format("{}: column {}, {} rows", file, quoted(columns[*column]), rows));
}

}  // namespace

std::vector<std::string> read_inputs(InputKind kind, const std::vector<std::string>& words,
                                     const std::optional<std::string>& file, const std::optional<std::string>& column) {
  std::vector<std::string> inputs;
  for (const std::string& word : words) add_word(kind, word, inputs);
  if (column && (!file || !is_table(*file)))
    fail(ErrorKind::kUsage, "--text_column_name: has no effect without --file and a .csv, .tsv, .json or .jsonl file");
  if (!file) return inputs;
  const auto bytes = MappedFile::open(*file);
  if (is_table(*file)) {
    add_table(*file, bytes->text(), column, inputs);
    return inputs;
  }
  for_each_line(bytes->text().substr(skip_byte_order_mark(*file, bytes->text())), [&](std::string_view line, size_t n) {
    check_utf8(line, *file, static_cast<int64_t>(n));
    inputs.emplace_back(line);
  });
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
