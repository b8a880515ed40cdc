// SPDX-License-Identifier: Apache-2.0
#include "io/model_config.h"

#include <span>

#include "base/files/directories.h"
#include "base/json/json.h"
#include "io/foreign/foreign_checkpoint.h"
#include "io/foreign/tensor_bundle.h"

namespace transom {
namespace {

struct GoogleConfig {
  const char *file, *model_type, *prefix;
};
constexpr GoogleConfig kGoogleConfigs[] = {{"bert_config.json", "bert", "Bert"},
                                           {"albert_config.json", "albert", "Albert"}};

// Google's configurations say nothing about the head: its variables do.
void set_architecture(Config& config, const fs::path& index, const std::string& prefix) {
  const std::string text = read_file(index, uint64_t{1} << 28);
  std::string head = "Model";
  for (const auto& [name, entry] :
       parse_bundle_index(std::as_bytes(std::span(text.data(), text.size())), index.string()).entries) {
    if (name == "output_weights" && entry.shape.size() == 2) {
      set_field(config, "num_labels", entry.shape[0]);
      head = "ForSequenceClassification";
    }
    if (name == "cls/squad/output_weights") head = "ForQuestionAnswering";
    if (name == "cls/predictions/output_bias" && head == "Model") head = "ForMaskedLM";
    if (name == "cls/seq_relationship/output_weights") head = "ForPreTraining";
  }
  if (prefix == "Albert" && head == "ForPreTraining") head = "ForMaskedLM";  // the other head has no class here
  set_field(config, "architectures", Json::array({prefix + head}));
}

}  // namespace

Config read_model_config(const fs::path& directory) {
  if (!path_exists(directory / "config.json"))
    for (const GoogleConfig& google : kGoogleConfigs) {
      if (!path_exists(directory / google.file)) continue;
      Config config = Config::read(directory / google.file);
      if (!config.has("model_type")) set_field(config, "model_type", google.model_type);
      const auto index = tensorflow_index(directory);
      if (index && !config.has("architectures")) set_architecture(config, *index, google.prefix);
      return config;
    }
  return Config::read(directory / "config.json");
}

bool has_model_config(const fs::path& directory) {
  if (path_exists(directory / "config.json")) return true;
  for (const GoogleConfig& google : kGoogleConfigs)
    if (path_exists(directory / google.file)) return true;
  return false;
}

}  // namespace transom
