// SPDX-License-Identifier: Apache-2.0
// The inputs of a command: words of its line, lines of standard input and of files, the files of folders.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "work/pipelines/task_record.h"

namespace transom {

// "-" is each line of standard input, a folder each image or sound in it. `file` has one input a line, or is a table
// (.csv, .tsv, .json, .jsonl) with one in each row: of the column of that name, else of `text` or `sentence`, else of
// the only column. An input is a text, or the path of a file. Says which column is read, which sub-folders are not
// read, and where a text is the name of a file. Refuses what is not UTF-8.
std::vector<std::string> read_inputs(InputKind kind, const std::vector<std::string>& words,
                                     const std::optional<std::string>& file,
                                     const std::optional<std::string>& column = std::nullopt);

// Each line of standard input without its end.
void for_each_input_line(const std::function<void(const std::string&)>& take);
// All of it, without the last line end.
std::string read_standard_input();

// line(text, number from 1) of each line, without its end.
template <typename Line>
void for_each_line(std::string_view text, Line&& line) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    if (!one.empty() && one.back() == '\r') one.remove_suffix(1);
    line(one, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace transom
