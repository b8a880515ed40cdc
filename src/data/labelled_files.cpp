// SPDX-License-Identifier: Apache-2.0
#include "data/labelled_files.h"

#include <algorithm>

#include "base/error.h"
#include "data/columns.h"

namespace transom {

namespace fs = std::filesystem;

LabelledFiles LabelledFiles::open_folder(const fs::path& directory, bool (*is_wanted)(const fs::path&),
                                         std::string_view what) {
  if (!fs::is_directory(directory)) fail("{}: expected a directory with one folder a class", directory.string());
  LabelledFiles result;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.is_directory()) result.classes.push_back(entry.path().filename().string());
  std::sort(result.classes.begin(), result.classes.end());
  if (result.classes.empty()) fail("{}: holds no folders: expected one a class", directory.string());
  for (size_t label = 0; label < result.classes.size(); ++label) {
    std::vector<File> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory / result.classes[label]))
      if (entry.is_regular_file() && is_wanted(entry.path()))
        files.push_back({entry.path(), static_cast<int64_t>(label)});
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
    result.files.insert(result.files.end(), files.begin(), files.end());
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
    if (fs::is_regular_file(path)) return path;
  fail("{}: there is no file {}", data.where(row), quoted(*text));
}

}  // namespace transom
