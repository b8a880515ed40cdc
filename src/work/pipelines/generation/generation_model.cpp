// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/generation/generation_model.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "models/generative.h"
#include "work/generation/generation_fields.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

bool is_generation_field(const std::string& name) {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all;
    for (const GenerationField& field : generation_fields()) all.emplace(field.name);
    return all;
  }();
  return names.contains(name);
}

// Of sampling alone: defaults for them are not applied without it.
bool is_of_sampling(const std::string& name) {
  static const std::set<std::string> names = {"temperature", "top_k",     "top_p",          "min_p",
                                              "top_h",       "typical_p", "epsilon_cutoff", "eta_cutoff"};
  return names.contains(name);
}

}  // namespace

GenerationModel GenerationModel::load(const std::string& model, const LoadOptions& options) {
  TextModel text = TextModel::load(model, options);
  GenerationModel result{.model = std::move(text.model),
                         .tokenizer = std::move(text.tokenizer),
                         .config = GenerationConfig::from_pretrained(model)};
  const Json json = read_json(generation_file(model));
  for (const auto& [name, value] : json.items())
    if (!value.is_null() && is_generation_field(name)) result.given.insert(name);
  return result;
}

void GenerationModel::specialise(const Json& fields) {
  Json known = Json::object();
  for (const auto& [name, value] : fields.items())
    if (is_generation_field(name)) known[name] = value, given.insert(name);
  config.update(dump_json(known));
}

GenerationConfig GenerationModel::config_for(const TaskOptions& options, const Json& defaults) const {
  Json asked = Json::object();
  const auto take = [&](const std::string& name, const Json& value) {
    if (name == "stop" || name == "stop_sequence") asked["stop_strings"] = value;
    else if (is_generation_field(name)) asked[name] = value;
    else return false;
    return true;
  };
  for (const auto& [name, value] : options.all()) take(name, json_of_value(value));
  if (const Json kwargs = json_option(options, "generate_kwargs"); !kwargs.is_null()) {
    if (!kwargs.is_object()) fail("parameter generate_kwargs: expected an object");
    for (const auto& [name, value] : kwargs.items())
      if (!take(name, value)) fail("parameter generate_kwargs: unknown generation option {}", quoted(name));
  }
  const auto is_set = [&](const std::string& name) { return given.contains(name) || asked.contains(name); };
  const auto samples = [&] {
    if (const auto found = asked.find("do_sample"); found != asked.end()) return *found == true;
    return given.contains("do_sample") ? config.do_sample : defaults.value("do_sample", false);
  };
  Json added = Json::object();
  for (const auto& [name, value] : defaults.items()) {
    if (is_set(name) || (name == "max_new_tokens" && is_set("max_length"))) continue;
    if (is_of_sampling(name) && !samples()) continue;
    added[name] = value;
  }
  GenerationConfig result = config;
  result.update(dump_json(added));
  result.update(dump_json(asked));
  // What is asked for of two that say the same counts.
  if (asked.contains("max_length") && !asked.contains("max_new_tokens") && !given.contains("max_new_tokens"))
    result.max_new_tokens.reset();
  if (const auto padding = tokenizer.pad_token_id(); padding && !is_set("pad_token_id")) result.pad_token_id = *padding;
  return result;
}

TaskParameters generation_parameters(TaskParameters own) {
  own.push_back(
      {"generate_kwargs", TaskParameter::Type::kJson, "options of generate() as an object: {\"num_beams\": 4}"});
  own.push_back({"stop", TaskParameter::Type::kTexts, "another name of --stop_strings"});
  own.push_back({"stop_sequence", TaskParameter::Type::kTexts, "another name of --stop_strings"});
  for (const GenerationField& field : generation_fields())
    if (!find_parameter(own, field.name))  // which some tasks have for something else
      own.push_back({.name = std::string(field.name),
                     .type = TaskParameter::Type::kGeneration,
                     .help = std::string(field.help),
                     .flag_alone = field.is_flag});
  return own;
}

}  // namespace transom
