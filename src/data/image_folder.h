// SPDX-License-Identifier: Apache-2.0
// A data set of pictures: one folder a class, as datasets' "imagefolder" and torchvision have it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace transom {

struct ImageFolder {
  struct File {
    std::filesystem::path path;
    int64_t label = 0;  // the place of the class in `classes`
  };
  std::vector<std::string> classes;  // sorted
  std::vector<File> files;           // by class, then by name

  // Looks into each folder of `directory`, at any depth; files that are no images by their names are passed over.
  // Refuses a directory without classes or without images.
  static ImageFolder open(const std::filesystem::path& directory);
};

}  // namespace transom
