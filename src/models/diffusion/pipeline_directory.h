// SPDX-License-Identifier: Apache-2.0
// A directory that diffusers' DiffusionPipeline.save_pretrained wrote: model_index.json, and a folder for each part.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/files/files.h"
#include "files/original/pipeline_files.h"
#include "transom/config.h"
#include "transom/model.h"

namespace transom {

bool is_pipeline_directory(const fs::path& directory);

class PipelineDirectory {
 public:
  // Refuses what is no such directory, and parts whose names lead elsewhere.
  explicit PipelineDirectory(const fs::path& directory);

  const std::string& class_name() const { return class_name_; }  // "StableDiffusionPipeline"
  const Config& config() const { return index_; }                // fields of the pipeline itself
  bool has(const std::string& part) const { return parts_.contains(part); }
  // The folder of a part that must be there and be of the class.
  fs::path folder(const std::string& part, const std::string& class_name) const;
  std::string class_of(const std::string& part) const;  // empty where there is no such part
  // The first part of a class, which must be there.
  std::string part_of(const std::string& class_name) const;
  std::unique_ptr<Model> load(const std::string& part, const std::string& class_name, LoadOptions options) const;
  // scheduler/scheduler_config.json.
  Config scheduler() const;
  std::string where() const { return (directory_ / kPipelineIndexName).string(); }

 private:
  fs::path directory_;
  Config index_;
  std::string class_name_;
  std::map<std::string, std::string> parts_;  // their classes
};

}  // namespace transom
