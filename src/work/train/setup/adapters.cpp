// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/adapters.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/initial/eva.h"
#include "models/loading/input_names.h"
#include "models/loading/weights/untied.h"
#include "transom/hub.h"
#include "work/train/loop/model_inputs.h"

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

// true and false are no names.
Json initial_of_lora(const std::string& name) {
  if (name == "true" || name == "false") return name == "true";
  return name;
}

// The arguments that name fields of adapter_config.json, where they are given.
Json given_fields(const ScriptArguments& script) {
  Json fields = Json::object();
  const auto set = [&](const char* field, const auto& value) {
    if (value) fields[field] = *value;
  };
  set("num_virtual_tokens", script.num_virtual_tokens);
  set("prompt_tuning_init", script.prompt_tuning_init);
  set("prompt_tuning_init_text", script.prompt_tuning_init_text);
  set("encoder_hidden_size", script.encoder_hidden_size);
  set("encoder_reparameterization_type", script.encoder_reparameterization_type);
  set("init_r", script.init_r);
  set("target_r", script.target_r);
  set("tinit", script.tinit);
  set("tfinal", script.tfinal);
  set("task_type", script.lora_task_type);
  if (script.prefix_projection) fields["prefix_projection"] = true;
  if (script.use_rslora) fields["use_rslora"] = true;
  if (script.use_dora) fields["use_dora"] = true;
  if (script.lora_bias != "none") fields["bias"] = script.lora_bias;
  if (script.init_lora_weights) fields["init_lora_weights"] = initial_of_lora(*script.init_lora_weights);
  for (const auto& [name, words] : {std::pair("target_modules", &script.lora_target_modules),
                                    std::pair("modules_to_save", &script.lora_modules_to_save),
                                    std::pair("feedforward_modules", &script.feedforward_modules),
                                    std::pair("exclude_modules", &script.exclude_modules)})
    if (!words->empty()) fields[name] = targets_of(*words);
  for (const auto& [name, pattern] :
       {std::pair("rank_pattern", &script.lora_rank_pattern), std::pair("alpha_pattern", &script.lora_alpha_pattern)})
    if (!pattern->text.empty()) fields[name] = parse_json(pattern->text, name);
  return fields;
}

AdapterConfig config_of(const ScriptArguments& script, const std::string& base) {
  Json fields = given_fields(script);
  for (const auto& [name, value] : fields.items())
    if (name != "task_type" && name != "modules_to_save" && !adapter_kind_takes(script.peft_type, name))
      fail(ErrorKind::kUsage, "peft_type {} has no {}", script.peft_type, name);
  const auto set = [&](const char* field, const Json& value) {
    if (adapter_kind_takes(script.peft_type, field) && !fields.contains(field)) fields[field] = value;
  };
  const bool is_whole = script.lora_alpha == std::floor(script.lora_alpha);  // as PEFT's alpha is
  const Json alpha = is_whole ? Json(static_cast<int64_t>(script.lora_alpha)) : Json(script.lora_alpha);
  set("r", script.lora_r);
  set("lora_alpha", alpha);
  set("alpha", alpha);
  set("lora_dropout", script.lora_dropout);
  set("num_virtual_tokens", 20);
  if (adapter_kind_takes(script.peft_type, "tokenizer_name_or_path"))
    set("tokenizer_name_or_path", script.tokenizer_name.value_or(base));
  fields["base_model_name_or_path"] = base;
  fields["peft_type"] = script.peft_type;
  if (!script.peft_config.text.empty()) {
    const Json more = parse_json(script.peft_config.text, "peft_config");
    if (!more.is_object()) fail(ErrorKind::kUsage, "peft_config: expected an object, found {}", more.dump());
    if (more.contains("peft_type") && more.at("peft_type") != script.peft_type)
      fail(ErrorKind::kUsage, "peft_config: peft_type: expected that of --peft_type, {}, found {}", script.peft_type,
           more.at("peft_type").dump());
    for (const auto& [name, value] : more.items()) fields[name] = value;
  }
  return AdapterConfig::with(dump_json(fields));
}

// EvaConfig's use_label_mask and label_mask_value: tokens with this label do not count; nothing: all do.
std::optional<int64_t> label_mask_of(const AdapterConfig& config) {
  const Json& fields = json_of(config.fields());
  const Json eva =
      fields.contains("eva_config") && fields["eva_config"].is_object() ? fields["eva_config"] : Json::object();
  if (!eva.value("use_label_mask", true)) return std::nullopt;
  return eva.value("label_mask_value", int64_t{-100});
}

// Rows as the model reads them, and which of their tokens count.
ReadBatch read_batch(const TrainingData& data, const Model& model, int64_t first, int64_t count,
                     std::optional<int64_t> mask_value) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row) rows.push_back((first + row) % data.rows);
  Batch batch = data.batch(rows);
  if (data.augment) data.augment(batch, static_cast<uint64_t>(first));
  const NamedTensors all = to_inputs(batch, model);
  ReadBatch read;
  const std::vector<std::string> known = input_names_of(model);
  for (const auto& [name, tensor] : all.items())
    if (name != "labels" && std::find(known.begin(), known.end(), name) != known.end()) read.inputs.set(name, tensor);
  const Tensor ids = all.find("input_ids"), mask = all.find("attention_mask"), labels = all.find("labels");
  if (!ids.defined())
    fail(ErrorKind::kUnsupported,
         "--init_lora_weights eva: expected rows of tokens, found none in this task's batches");
  read.counted.assign(static_cast<size_t>(ids.dim(0) * ids.dim(1)), true);
  const auto leave_out = [&](const Tensor& tensor, int64_t value) {
    if (!tensor.defined() || tensor.shape() != ids.shape()) return;
    const std::vector<int64_t> numbers = tensor.to_vector<int64_t>();
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] == value) read.counted[i] = false;
  };
  leave_out(mask, 0);
  if (mask_value) leave_out(labels, *mask_value);
  return read;
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
  if (!script.use_peft || holds_adapters(resolve_model(directory)))
    return Model::from_pretrained(directory, options, report);
  return load_base(directory, config_of(script, directory), options, report);
}

void add_adapters(const TrainArguments& arguments, const std::string& base, Model& model, const TrainingData* data) {
  const ScriptArguments& script = arguments.script;
  if (!script.use_peft || model.adaptation()) return;
  AdapterConfig config = config_of(script, base);
  const auto seed = static_cast<uint64_t>(arguments.training.seed);
  if (!begins_by_activations(config)) return Adaptation::add(model, std::move(config), seed);
  if (!data)
    fail(ErrorKind::kUsage,
         "--init_lora_weights eva: expected data to train on, of which the matrices are made; found none");
  const int64_t rows = arguments.training.per_device_train_batch_size,
                batches = std::max<int64_t>(data->rows / rows, 1);
  add_by_activations(model, config, seed, batches, [&, options = label_mask_of(config)](int64_t number) {
    return read_batch(*data, model, number * rows, std::min(rows, data->rows), options);
  });
}

}  // namespace transom
