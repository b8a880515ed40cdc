// SPDX-License-Identifier: Apache-2.0
#include "files/hub/model_files.h"

#include "base/error.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"

namespace transom {
namespace {

constexpr std::string_view kDescriptions[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "chat_template.jinja",
    "chat_template.json",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
};

// The files of the modules that modules.json names: 1_Pooling/config.json, 2_Dense/model.safetensors; and the
// configuration of the model among them by the names that older versions of sentence-transformers gave it.
void fetch_modules(Repository& repository, const fs::path& modules) {
  const Json list = read_json(modules);
  if (!list.is_array()) fail("{}: expected a list of modules", modules.string());
  for (const Json& module : list) {
    if (!module.is_object() || !module.contains("path") || !module["path"].is_string()) continue;
    const std::string folder = module["path"].get<std::string>();
    if (folder.empty()) continue;
    repository.find(folder + "/config.json");
    const Json type = module.value("type", Json());
    for (const char* weighted : {"Dense", "LayerNorm"})
      if (type.is_string() && type.get_ref<const std::string&>().ends_with(weighted))
        if (!repository.find(folder + "/model.safetensors")) repository.find(folder + "/pytorch_model.bin");
  }
  if (repository.find("sentence_bert_config.json")) return;
  for (const char* model : {"roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"})
    if (repository.find(fmt::format("sentence_{}_config.json", model))) return;
}

}  // namespace

std::span<const std::string_view> description_files() { return kDescriptions; }

void fetch_descriptions(Repository& repository) {
  for (const std::string_view name : kDescriptions) {
    const auto path = repository.find(std::string(name));
    if (path && name == "modules.json") fetch_modules(repository, *path);
  }
}

void fetch_weights(Repository& repository) {
  for (const std::string name : {"model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"}) {
    if (repository.find(name)) return;
    if (const auto index = repository.find(name + ".index.json")) {
      for (const std::string& shard : shard_names(*index)) repository.require(shard, "which the index names");
      return;
    }
  }
  repository.fail_missing(
      "weights (model.safetensors, pytorch_model.bin, tf_model.h5, flax_model.msgpack, or an index of one)");
}

}  // namespace transom
