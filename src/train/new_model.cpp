// SPDX-License-Identifier: Apache-2.0
#include "train/new_model.h"

#include "base/error.h"
#include "base/files.h"
#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {

void start_from_scratch(TrainArguments& arguments) {
  ScriptArguments& script = arguments.script;
  if (!script.model_name_or_path.empty() || !script.config_name) return;
  const fs::path directory = fs::path(arguments.training.output_dir) / "new_model";
  if (!fs::exists(directory / "model.safetensors")) {
    fs::path config(*script.config_name);
    if (fs::is_directory(config)) config /= "config.json";
    const std::string tokenizer = script.tokenizer_name.value_or(*script.config_name);
    const auto model = Model::from_config(
        read_file(config), {.task = "feature-extraction", .seed = static_cast<uint64_t>(arguments.training.seed)});
    Tokenizer::from_pretrained(tokenizer).save_pretrained(directory.string());
    model->save_pretrained(directory.string());
  }
  script.model_name_or_path = directory.string();
}

}  // namespace transom
