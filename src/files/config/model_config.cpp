// SPDX-License-Identifier: Apache-2.0
#include "files/config/model_config.h"

#include <span>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/family/family.h"
#include "files/foreign/foreign_checkpoint.h"
#include "files/foreign/tensorflow/tensor_bundle.h"

namespace transom {
namespace {

// Google's configurations say nothing about the head: its variables do.
void set_architecture(Config& config, const fs::path& index, const Family& family) {
  const std::string text = read_file(index, uint64_t{1} << 28);
  HeadTask head = HeadTask::kBody;
  for (const auto& [name, entry] :
       parse_bundle_index(std::as_bytes(std::span(text.data(), text.size())), index.string()).entries) {
    if (name == "output_weights" && entry.shape.size() == 2) {
      set_field(config, "num_labels", entry.shape[0]);
      head = HeadTask::kSequenceClassification;
    }
    if (name == "cls/squad/output_weights") head = HeadTask::kQuestionAnswering;
    if (name == "cls/predictions/output_bias" && head == HeadTask::kBody) head = HeadTask::kMaskedLM;
    if (name == "cls/seq_relationship/output_weights") head = family.foreign.google->with_order_head;
  }
  const Architecture* architecture = find_architecture(family, head);
  if (!architecture) fail("{}: the class of a model for this checkpoint is not known", index.string());
  set_field(config, "architectures", Json::array({architecture->name}));
}

}  // namespace

Config read_model_config(const fs::path& directory) {
  if (!path_exists(directory / "config.json"))
    for (const Family& family : families()) {
      const std::optional<GoogleFiles>& google = family.foreign.google;
      if (!google || !path_exists(directory / google->config)) continue;
      Config config = Config::read(directory / google->config);
      if (!config.has("model_type")) set_field(config, "model_type", family.model_type);
      const auto index = tensorflow_index(directory);
      if (index && !config.has("architectures")) set_architecture(config, *index, family);
      return config;
    }
  return with_architecture(Config::read(directory / "config.json"));
}

Config with_architecture(Config config) {
  if (!config.has("architectures") && config.has("_class_name"))
    set_field(config, "architectures", Json::array({config.get_string("_class_name")}));
  return config;
}

Config text_config_of(const Config& config) {
  return config.has("text_config") ? config.get_object("text_config") : config;
}

bool has_model_config(const fs::path& directory) {
  if (path_exists(directory / "config.json")) return true;
  for (const Family& family : families())
    if (family.foreign.google && path_exists(directory / family.foreign.google->config)) return true;
  return false;
}

}  // namespace transom
