// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/adapters.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/lora.h"
#include "models/loading/weights/untied.h"
#include "transom/hub.h"

namespace transom {
namespace {

// One word that is more than a name (a regular expression, or all-linear) is a pattern, as PEFT has it; names may have
// commas between them.
Json targets_of(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words[0] == "all-linear" || words[0].find_first_of("\\*+?()[]{}|^$") != std::string::npos))
    return words[0];
  Json names = Json::array();
  for (const std::string& word : words)
    for (size_t begin = 0; begin <= word.size();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      if (end > begin) names.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  return names;
}

LoraConfig config_of(const ScriptArguments& script, const std::string& base) {
  Json fields = {{"r", script.lora_r},          {"lora_dropout", script.lora_dropout},
                 {"bias", script.lora_bias},    {"use_rslora", script.use_rslora},
                 {"use_dora", script.use_dora}, {"base_model_name_or_path", base}};
  // PEFT's alpha is a whole number.
  if (script.lora_alpha == std::floor(script.lora_alpha))
    fields["lora_alpha"] = static_cast<int64_t>(script.lora_alpha);
  else fields["lora_alpha"] = script.lora_alpha;
  if (!script.lora_target_modules.empty()) fields["target_modules"] = targets_of(script.lora_target_modules);
  if (!script.lora_modules_to_save.empty()) fields["modules_to_save"] = targets_of(script.lora_modules_to_save);
  if (script.lora_task_type) fields["task_type"] = *script.lora_task_type;
  for (const auto& [name, pattern] :
       {std::pair("rank_pattern", &script.lora_rank_pattern), std::pair("alpha_pattern", &script.lora_alpha_pattern)})
    if (!pattern->text.empty()) fields[name] = parse_json(pattern->text, name);
  return LoraConfig::with(dump_json(fields));
}

}  // namespace

std::string quantization_in_training(const ScriptArguments& script) {
  const bool codes = script.load_in_4bit || script.load_in_8bit;
  if (script.load_in_4bit && script.load_in_8bit)
    fail(ErrorKind::kUsage, "--load_in_4bit, --load_in_8bit: expected one of them, found both");
  if (codes && !script.use_peft)
    fail(ErrorKind::kUsage, "--load_in_{}bit: codes are not trained: adapters are, with --use_peft",
         script.load_in_4bit ? 4 : 8);
  if (!script.use_peft) return "decompressed";
  return script.load_in_4bit ? script.bnb_4bit_quant_type : script.load_in_8bit ? "int8_channel" : "none";
}

std::unique_ptr<Model> load_base_model(const TrainArguments& arguments, const std::string& directory,
                                       const LoadOptions& options, LoadReport* report) {
  const ScriptArguments& script = arguments.script;
  if (!script.use_peft || script.lora_modules_to_save.empty() || holds_adapters(resolve_model(directory)))
    return Model::from_pretrained(directory, options, report);
  return load_base(directory, config_of(script, directory), options, report);
}

void add_adapters(const TrainArguments& arguments, const std::string& base, Model& model) {
  const ScriptArguments& script = arguments.script;
  if (!script.use_peft || model.adaptation()) return;
  Adaptation::add(model, config_of(script, base), static_cast<uint64_t>(arguments.training.seed));
}

}  // namespace transom
