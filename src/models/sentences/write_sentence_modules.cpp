// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "models/sentences/module_file.h"
#include "models/sentences/sentence_modules.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEncodeSettings = "config_sentence_transformers.json";
constexpr const char* kTransformerSettings = "sentence_bert_config.json";

void write(const fs::path& file, const Json& value) { write_file(file, dump_json(value, 2) + "\n"); }

void copy_if_there(const fs::path& from, const fs::path& to) {
  if (path_exists(from)) write_file(to, read_file(from));
}

void write_settings(const SentenceModules& modules, const char* type, const fs::path& directory) {
  Json prompts = {{"query", ""}, {"document", ""}};
  for (const auto& [name, text] : modules.prompts) prompts[name] = text;
  write(directory / kEncodeSettings, {{"model_type", type},
                                      {"prompts", prompts},
                                      {"default_prompt_name", nullptr},
                                      {"similarity_fn_name", name_of(modules.similarity)}});
}

// The names of the classes are those that all versions of the library know.
void write_new(const SentenceModules& modules, int64_t width, const fs::path& directory) {
  const std::string classes =
      modules.sparse ? "sentence_transformers.sparse_encoder.models." : "sentence_transformers.models.";
  const auto entry = [&](int index, std::string_view kind, const std::string& path) {
    return Json{
        {"idx", index}, {"name", std::to_string(index)}, {"path", path}, {"type", fmt::format("{}{}", classes, kind)}};
  };
  if (modules.sparse) {
    const std::string folder = fmt::format("1_{}", kSpladePooling);
    write(directory / "modules.json", Json::array({entry(0, "MLMTransformer", ""), entry(1, kSpladePooling, folder)}));
    make_directories(directory / folder);
    write(directory / folder / "config.json",
          {{"pooling_strategy", modules.sparse->sum ? "sum" : "max"},
           {"activation_function", modules.sparse->log_twice ? "log1p_relu" : "relu"},
           {"word_embedding_dimension", width}});
    return write_settings(modules, "SparseEncoder", directory);
  }
  write(directory / "modules.json", Json::array({entry(0, "Transformer", ""), entry(1, "Pooling", "1_Pooling")}));
  Json pooling = {{"word_embedding_dimension", width}, {"include_prompt", modules.include_prompt}};
  for (const auto& [mode, flag] : pooling_flags())
    pooling[flag] = std::find(modules.pooling.begin(), modules.pooling.end(), mode) != modules.pooling.end();
  make_directories(directory / "1_Pooling");
  write(directory / "1_Pooling" / "config.json", pooling);
  write_settings(modules, "SentenceTransformer", directory);
}

void copy_old(const SentenceModules& modules, const fs::path& base, const fs::path& directory) {
  Json list = read_json(base / "modules.json");
  for (Json& module : list) {
    const std::string type = module.value("type", "");
    const fs::path path = module.value("path", "");
    if (type.ends_with(".Transformer") || type.ends_with(".MLMTransformer")) {
      module["path"] = "";  // the model lies in the directory itself
      continue;
    }
    make_directories(directory / path);
    copy_if_there(base / path / "config.json", directory / path / "config.json");
  }
  write(directory / "modules.json", list);
  copy_if_there(base / kEncodeSettings, directory / kEncodeSettings);
  copy_if_there(base / modules.transformer / kTransformerSettings, directory / kTransformerSettings);
}

}  // namespace

void write_sentence_modules(const SentenceModules& modules, const fs::path& base, int64_t width,
                            const fs::path& directory) {
  if (modules.declared) copy_old(modules, base, directory);
  else write_new(modules, width, directory);
  const fs::path file = directory / kTransformerSettings;
  Json settings = path_exists(file) ? read_json(file) : Json::object();
  if (modules.max_seq_length) settings["max_seq_length"] = *modules.max_seq_length;
  settings["do_lower_case"] = modules.do_lower_case;
  write(file, settings);
}

}  // namespace transom
