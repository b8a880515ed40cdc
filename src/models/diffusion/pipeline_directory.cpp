// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/pipeline_directory.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/loading/weights/missing_weights.h"

namespace transom {
namespace {

constexpr size_t kMostParts = 64;

bool is_folder_name(const std::string& name) {
  return !name.empty() && name.size() <= 100 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
}

Config read_index(const fs::path& directory) {
  const fs::path file = directory / kPipelineIndexName;
  if (!path_exists(file))
    fail("{}: expected a directory of a pipeline of diffusers, with {}; found none", directory.string(),
         kPipelineIndexName);
  return Config::read(file);
}

}  // namespace

bool is_pipeline_directory(const fs::path& directory) { return path_exists(directory / kPipelineIndexName); }

PipelineDirectory::PipelineDirectory(const fs::path& directory)
    : directory_(directory), index_(read_index(directory)), class_name_(index_.get_string("_class_name")) {
  for (const auto& [name, value] : json_of(index_).items()) {
    if (name.starts_with('_') || !value.is_array()) continue;                     // a field of the pipeline
    if (value.size() == 2 && value[0].is_null() && value[1].is_null()) continue;  // a part that is not there
    if (value.size() != 2 || !value[0].is_string() || !value[1].is_string() || !is_folder_name(name))
      fail("{}: {}: expected a part as [library, class], found {}", where(), quoted(name, 60),
           quoted(value.dump(), 80));
    parts_[name] = value[1].get<std::string>();
    if (parts_.size() > kMostParts) fail("{}: expected no more than {} parts", where(), kMostParts);
  }
}

std::string PipelineDirectory::class_of(const std::string& part) const {
  const auto found = parts_.find(part);
  return found == parts_.end() ? "" : found->second;
}

std::string PipelineDirectory::part_of(const std::string& class_name) const {
  for (const auto& [part, found] : parts_)
    if (found == class_name) return part;
  fail(ErrorKind::kUnsupported, "{}: {} needs a part that is a {}, and there is none", where(), class_name_,
       class_name);
}

fs::path PipelineDirectory::folder(const std::string& part, const std::string& class_name) const {
  const std::string found = class_of(part);
  if (found.empty()) fail("{}: {} is missing: {} needs a {}", where(), part, class_name_, class_name);
  if (!class_name.empty() && found != class_name)
    fail(ErrorKind::kUnsupported, "{}: {}: expected a {}, found {}", where(), part, class_name, quoted(found));
  const fs::path folder = directory_ / part;
  if (!directory_exists(folder)) fail("{}: names the part {}, and there is no such folder", where(), part);
  return folder;
}

std::unique_ptr<Model> PipelineDirectory::load(const std::string& part, const std::string& class_name,
                                               LoadOptions options) const {
  options.task.clear();  // the class is that of the part's configuration
  std::unique_ptr<Model> model = load_trained(folder(part, class_name).string(), options);
  if (model->architecture() != class_name)
    fail("{}: {}: expected a {}, and its config.json is of a {}", where(), part, class_name, model->architecture());
  return model;
}

Config PipelineDirectory::scheduler() const { return Config::read(folder("scheduler", "") / kSchedulerConfigName); }

}  // namespace transom
