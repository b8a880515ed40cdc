// SPDX-License-Identifier: Apache-2.0
#include "data/image_folder.h"

#include <algorithm>

#include "base/error.h"
#include "images/image.h"

namespace transom {

namespace fs = std::filesystem;

ImageFolder ImageFolder::open(const fs::path& directory) {
  if (!fs::is_directory(directory)) fail("{}: expected a directory with one folder a class", directory.string());
  ImageFolder result;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.is_directory()) result.classes.push_back(entry.path().filename().string());
  std::sort(result.classes.begin(), result.classes.end());
  if (result.classes.empty()) fail("{}: holds no folders: expected one a class", directory.string());
  for (size_t label = 0; label < result.classes.size(); ++label) {
    std::vector<File> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory / result.classes[label]))
      if (entry.is_regular_file() && is_image_name(entry.path()))
        files.push_back({entry.path(), static_cast<int64_t>(label)});
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
    result.files.insert(result.files.end(), files.begin(), files.end());
  }
  if (result.files.empty()) fail("{}: its folders hold no images", directory.string());
  return result;
}

}  // namespace transom
