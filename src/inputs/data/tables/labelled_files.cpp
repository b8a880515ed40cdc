// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/tables/labelled_files.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "inputs/data/class_names.h"
#include "inputs/data/columns.h"
#include "inputs/images/frames/video_file.h"

namespace transom {

namespace fs = std::filesystem;

namespace {

// What datasets' imagefolder leaves out: .ipynb_checkpoints, .DS_Store, __MACOSX.
bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with("__");
}

// A folder that is_whole stands for what it holds.
void collect_files(const fs::path& directory, bool (*is_whole)(const fs::path&), std::set<fs::path>& seen,
                   std::vector<fs::path>& files) {
  std::error_code none;
  if (!seen.insert(fs::weakly_canonical(directory, none)).second) return;
  for (const fs::path& path : list_directory(directory)) {
    if (is_hidden(path)) continue;
    if (directory_exists(path)) is_whole(path) ? files.push_back(path) : collect_files(path, is_whole, seen, files);
    else if (fs::is_regular_file(path, none) || fs::is_symlink(path, none)) files.push_back(path);
  }
}

// Files that are left out, by what their names end in: ".tiff 3, .txt 1".
class LeftOut {
 public:
  void add(const fs::path& file) {
    std::string end = file.extension().string();
    std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
    ++kinds_[end.empty() ? "without an ending" : end];
  }
  bool any() const { return !kinds_.empty(); }
  std::string text() const {
    std::vector<std::string> parts;
    for (const auto& [kind, count] : kinds_) parts.push_back(fmt::format("{} {}", count, kind));
    return listed_names(parts);
  }

 private:
  std::map<std::string, int64_t> kinds_;
};

}  // namespace

std::vector<fs::path> visible_files(const fs::path& directory) {
  std::set<fs::path> seen;
  std::vector<fs::path> files;
  collect_files(
      directory, [](const fs::path&) { return false; }, seen, files);
  return files;
}

std::vector<fs::path> visible_videos(const fs::path& directory) {
  std::set<fs::path> seen;
  std::vector<fs::path> videos;
  collect_files(directory, is_folder_of_frames, seen, videos);
  return videos;
}

LabelledFiles LabelledFiles::open_folder(const fs::path& directory, bool (*is_wanted)(const fs::path&),
                                         std::string_view what, FileLister* list) {
  if (!directory_exists(directory)) fail("{}: expected a directory with one folder a class", directory.string());
  LabelledFiles result;
  LeftOut others, beside;
  std::vector<std::string> empty;
  bool folders = false;
  for (const fs::path& path : list_directory(directory)) {
    if (is_hidden(path)) continue;
    if (!directory_exists(path)) {
      beside.add(path);
      continue;
    }
    folders = true;
    const std::vector<fs::path> files = list(path);
    const auto label = static_cast<int64_t>(result.classes.size());
    const size_t before = result.files.size();
    for (const fs::path& file : files)
      if (is_wanted(file)) result.files.push_back({file, label});
      else others.add(file);
    if (result.files.size() > before) result.classes.push_back(path.filename().string());
    else empty.push_back(quoted(path.filename().string()));
  }
  if (!folders) fail("{}: holds no folders: expected one a class", directory.string());
  if (result.files.empty())
    fail("{}: its folders hold no {}{}", directory.string(), what,
         others.any() ? fmt::format(" that are read; found {}", others.text()) : "");
  const auto say = [&](const std::string& text) {
    log(LogLevel::kWarning, fmt::format("{}: {}", directory.string(), text));
  };
  if (!empty.empty()) say(fmt::format("folders without {} are no classes: {}", what, listed_names(empty)));
  if (others.any()) say(fmt::format("files that are not read as {} are left out: {}", what, others.text()));
  if (beside.any()) say(fmt::format("files beside the folders have no class and are left out: {}", beside.text()));
  return result;
}

LabelledFiles LabelledFiles::read_rows(const Dataset& data, const std::string& file_column,
                                       const std::string& label_column) {
  const size_t file = need_column(data, file_column, "the files: --image_column_name, --audio_column_name"),
               label = need_column(data, label_column, "label_column_name");
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
  return file_beside(data, *text, data.where(row));
}

fs::path file_beside(const Dataset& data, const std::string& name, const std::string& where) {
  for (const fs::path& path : {fs::path(name), fs::path(data.name()).parent_path() / name})
    if (file_exists(path)) return path;
  fail("{}: there is no file {}", where, quoted(name, 200));
}

}  // namespace transom
