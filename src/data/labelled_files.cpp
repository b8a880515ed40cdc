// SPDX-License-Identifier: Apache-2.0
#include "data/labelled_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "data/columns.h"

namespace transom {

namespace fs = std::filesystem;

LabelledFiles LabelledFiles::open_folder(const fs::path& directory, bool (*is_wanted)(const fs::path&),
                                         std::string_view what) {
  if (!directory_exists(directory)) fail("{}: expected a directory with one folder a class", directory.string());
  LabelledFiles result;
  for (const fs::path& path : list_directory(directory))
    if (directory_exists(path)) result.classes.push_back(path.filename().string());
  if (result.classes.empty()) fail("{}: holds no folders: expected one a class", directory.string());
  for (size_t label = 0; label < result.classes.size(); ++label) {
    for (const fs::path& path : list_files_below(directory / result.classes[label]))
      if (is_wanted(path)) result.files.push_back({path, static_cast<int64_t>(label)});
  }
  if (result.files.empty()) fail("{}: its folders hold no {}", directory.string(), what);
  return result;
}

LabelledFiles LabelledFiles::read_rows(const Dataset& data, const std::string& file_column,
                                       const std::string& label_column) {
  const size_t file = need_column(data, file_column, "the files"),
               label = need_column(data, label_column, "the labels");
  const Labels labels = Labels::of(data, label, false);
  if (labels.kind() != LabelKind::kClasses)
    fail("{}: column {}: expected one class a row", data.name(), quoted(label_column));
  LabelledFiles result{labels.names(), {}};
  for (int64_t row = 0; row < data.size(); ++row)
    result.files.push_back({file_of(data, row, file), labels.id(data.row(row)[label], data.where(row))});
  return result;
}

fs::path file_of(const Dataset& data, int64_t row, size_t column) {
  const Row values = data.row(row);
  const auto* text = std::get_if<std::string>(&values[column]);
  if (!text || text->empty())
    fail("{}: expected the name of a file in {}", data.where(row), data.columns()[column].name);
  const fs::path given(*text), beside = fs::path(data.name()).parent_path() / given;
  for (const fs::path& path : {given, beside})
    if (file_exists(path)) return path;
  fail("{}: there is no file {}", data.where(row), quoted(*text));
}

}  // namespace transom
