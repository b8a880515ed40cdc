// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/weight_files.h"

#include <algorithm>
#include <functional>

#include "base/files/directories.h"
#include "files/checkpoint/checkpoint.h"

namespace transom {
namespace {

std::vector<fs::path> files_that(const fs::path& directory, const std::function<bool(const std::string&)>& belongs) {
  std::vector<fs::path> files;
  for (const fs::path& path : list_directory(directory))
    if (file_exists(path) && belongs(path.filename().string())) files.push_back(path);
  return files;
}

}  // namespace

std::vector<fs::path> weight_files(const fs::path& path) {
  if (file_exists(path)) {
    const std::string name = path.filename().string();
    const size_t first = name.find("-00001-of-");
    if (first == name.npos || path.extension() != ".gguf") return {path};
    const std::string begin = name.substr(0, first + 1), end = name.substr(first + 6);
    return files_that(path.parent_path(), [&](const std::string& other) {
      return other.size() == name.size() && other.starts_with(begin) && other.ends_with(end);
    });
  }
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"}) {
    if (path_exists(path / name)) return {path / name};
    const fs::path index = path / (std::string(name) + ".index.json");
    if (!path_exists(index)) continue;
    std::vector<fs::path> files;
    for (const std::string& shard : shard_names(index)) files.push_back(path / shard);
    return files;
  }
  // Shards of processes, GGUF, ONNX, TensorFlow's own checkpoints: the directory holds one of them.
  for (const char* ending : {".safetensors", ".gguf", ".onnx", ".bin"}) {
    std::vector<fs::path> files = files_that(
        path, [&](const std::string& name) { return name.ends_with(ending) && name.find("mmproj") == name.npos; });
    if (!files.empty()) return files;
  }
  return files_that(path, [](const std::string& name) { return name.find(".data-") != name.npos; });
}

}  // namespace transom
