// SPDX-License-Identifier: Apache-2.0
// Pictures or sounds with a class each: one folder a class, or a table that names files and labels.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "transom/dataset.h"

namespace transom {

using FileLister = std::vector<std::filesystem::path>(const std::filesystem::path& directory);

// The files below a directory in order, hidden ones (.name, __name) and what is below hidden folders left out. Links to
// directories are followed, each directory once.
std::vector<std::filesystem::path> visible_files(const std::filesystem::path& directory);
// The same where a folder that holds pictures itself is a video of its own, and stands for them.
std::vector<std::filesystem::path> visible_videos(const std::filesystem::path& directory);

struct LabelledFiles {
  struct File {
    std::filesystem::path path;
    int64_t label;  // an index of `classes`
  };
  std::vector<std::string> classes;  // sorted
  std::vector<File> files;           // of a folder: by class, then by name

  // The folders of a directory that have files that `is_wanted`, however deep; hidden ones (.name, __name) are not
  // looked at. What else is left out is said by count and kind. `what` ("images") is for messages; `list` gives what
  // lies in the folder of a class, which may be folders that count as files.
  static LabelledFiles open_folder(const std::filesystem::path& directory,
                                   bool (*is_wanted)(const std::filesystem::path&), std::string_view what,
                                   FileLister* list = visible_files);
  // The rows of a table, by the names of its columns.
  static LabelledFiles read_rows(const Dataset& data, const std::string& file_column, const std::string& label_column);
};

// The file that a cell of a table names: as it stands, or beside the table where that is no file. An error that names
// the row where there is none.
std::filesystem::path file_of(const Dataset& data, int64_t row, size_t column);
// The file of a name that a table gives: as it stands, or beside the table.
std::filesystem::path file_beside(const Dataset& data, const std::string& name, const std::string& where);

}  // namespace transom
