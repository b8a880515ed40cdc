// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/lora_config.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/text/unicode/regex.h"

namespace transom {
namespace {

constexpr const char* kDefaults = R"({
  "alpha_pattern": {}, "auto_mapping": null, "base_model_name_or_path": null, "bias": "none", "exclude_modules": null,
  "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true, "layer_replication": null,
  "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 8, "lora_bias": false,
  "lora_dropout": 0.0, "megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null,
  "peft_type": "LORA", "r": 8, "rank_pattern": {}, "revision": null, "target_modules": null, "target_parameters": null,
  "task_type": null, "trainable_token_indices": null, "use_dora": false, "use_rslora": false})";

// The fields of adapter_config.json that are carried out, and those without effect on trained adapters: who wrote them,
// and how PEFT initialises. All others change what is computed, or are not known: their empty values alone are taken.
constexpr std::string_view kCarriedOut[] = {"alpha_pattern",
                                            "base_model_name_or_path",
                                            "bias",
                                            "exclude_modules",
                                            "fan_in_fan_out",
                                            "init_lora_weights",
                                            "layers_pattern",
                                            "lora_alpha",
                                            "lora_bias",
                                            "lora_dropout",
                                            "modules_to_save",
                                            "layers_to_transform",
                                            "peft_type",
                                            "r",
                                            "rank_pattern",
                                            "revision",
                                            "target_modules",
                                            "task_type",
                                            "use_dora",
                                            "use_rslora"};
constexpr std::string_view kWithoutEffect[] = {"auto_mapping",      "corda_config",   "eva_config",    "inference_mode",
                                               "loftq_config",      "lora_ga_config", "megatron_core", "peft_version",
                                               "qalora_group_size", "runtime_config"};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_empty(const Json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
}

bool is_olora(const Json& initial) {
  if (!initial.is_string()) return false;
  const std::string name = initial.get<std::string>();
  constexpr std::string_view kName = "olora";  // in whichever case
  return std::equal(name.begin(), name.end(), kName.begin(), kName.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

bool matches(const std::string& pattern, const std::string& text, const std::string& where) {
  const text::Regex regex("\\A(?:" + pattern + ")\\z", where);
  std::vector<std::pair<size_t, size_t>> found;
  regex.find_all(text, found);
  return !found.empty();
}

bool ends_with_module(const std::string& module, const std::string& name) {
  return module == name || module.ends_with("." + name);
}

}  // namespace

LoraConfig::LoraConfig(Config config) : config_(std::move(config)) {
  const std::string type = config_.get_string("peft_type", "LORA");
  if (type != "LORA")
    fail(ErrorKind::kUnsupported, "{}: peft_type {} is not carried out; only LORA is", config_.where(),
         transom::quoted(type));
  const bool saves_none = !config_.has("modules_to_save") || is_empty(json_of(config_).at("modules_to_save"));
  for (const auto& [field, value] : json_of(config_).items()) {
    if (is_among(kCarriedOut, field) || is_among(kWithoutEffect, field) || is_empty(value)) continue;
    if (field == "ensure_weight_tying" && saves_none) continue;  // is of modules to save
    fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out", config_.where(), transom::quoted(field, 60),
         transom::quoted(value.dump(), 60));
  }
  if (json_of(config_).contains("init_lora_weights")) {
    const Json& initial = json_of(config_).at("init_lora_weights");
    // Others (pissa, corda ...) change the frozen weights in ways of their own.
    if (!initial.is_boolean() && !initial.is_null() && initial != "gaussian" && initial != "eva" &&
        initial != "orthogonal" && !is_olora(initial))
      fail(ErrorKind::kUnsupported,
           "{}: init_lora_weights = {} is not carried out; true, false, gaussian and olora are", config_.where(),
           transom::quoted(initial.dump(), 60));
  }
  if (use_dora() && lora_bias())
    fail("{}: lora_bias: expected false beside use_dora, as PEFT has it, found true", config_.where());
  const std::string kind = bias();
  if (kind != "none" && kind != "all" && kind != "lora_only")
    fail("{}: bias: expected none, all or lora_only, found {}", config_.where(), transom::quoted(kind));
  if (config_.get_int("r", 8) < 1)
    fail("{}: r: expected a rank of at least 1, found {}", config_.where(), config_.get_int("r", 8));
}

LoraConfig LoraConfig::with(std::string_view fields) {
  Config config = Config::parse(kDefaults, "the LoRA configuration");
  const Json given = parse_json(fields, "the LoRA configuration");
  for (const auto& [name, value] : given.items()) set_field(config, name, value);
  return LoraConfig(std::move(config));
}

void LoraConfig::set(const std::string& field, Json value) { set_field(config_, field, std::move(value)); }

LoraConfig::Initial LoraConfig::initial() const {
  if (!json_of(config_).contains("init_lora_weights")) return Initial::kLinear;
  const Json& initial = json_of(config_).at("init_lora_weights");
  if (initial == "gaussian") return Initial::kGaussian;
  if (initial == false) return Initial::kBothLinear;
  return is_olora(initial) ? Initial::kOrthonormal : Initial::kLinear;
}

bool LoraConfig::Names::holds(const std::string& module) const {
  if (!pattern.empty()) return matches(pattern, module, "a pattern of the LoRA configuration");
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return ends_with_module(module, name); });
}

LoraConfig::Names LoraConfig::names_of(const char* field) const {
  if (!config_.has(field)) return {};
  if (json_of(config_).at(field).is_string()) return {{}, config_.get_string(field)};
  return {config_.get_strings(field), ""};
}

bool LoraConfig::transforms_layer_of(const std::string& module) const {
  if (!config_.has("layers_to_transform")) return true;
  const Json& given = json_of(config_).at("layers_to_transform");
  const std::vector<int64_t> layers =
      given.is_array() ? config_.get_ints("layers_to_transform") : std::vector{config_.get_int("layers_to_transform")};
  if (layers.empty()) return true;
  const Names patterns = names_of("layers_pattern");
  std::vector<std::string> before = patterns.names;
  if (!patterns.pattern.empty()) before.push_back(patterns.pattern);
  // The first numbered part of the name, behind one that the patterns name, if there are any.
  std::vector<std::string> parts(1);
  for (const char c : module)
    if (c == '.') parts.emplace_back();
    else parts.back() += c;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    if (parts[i].empty() || parts[i].size() > 9 || parts[i].find_first_not_of("0123456789") != std::string::npos)
      continue;
    if (before.empty() ? i < 2 : std::find(before.begin(), before.end(), parts[i - 1]) == before.end()) continue;
    return std::find(layers.begin(), layers.end(), std::stoll(parts[i])) != layers.end();
  }
  return false;
}

bool LoraConfig::targets_all() const {
  std::string lower = names_of("target_modules").pattern;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower == "all-linear";
}

bool LoraConfig::targets(const std::string& module, bool is_head) const {
  if (names_of("exclude_modules").holds(module) || saves(module + ".weight")) return false;
  if (targets_all()) return !is_head;
  const Names targets = names_of("target_modules");
  if (!targets.pattern.empty()) return targets.holds(module);
  const bool named = std::find(targets.names.begin(), targets.names.end(), module) != targets.names.end();
  return named || (targets.holds(module) && transforms_layer_of(module));
}

std::optional<double> LoraConfig::from_pattern(const char* field, const std::string& module) const {
  if (!config_.has(field)) return std::nullopt;
  const Config patterns = config_.get_object(field);
  for (const std::string& key : patterns.keys())
    if (matches("(?:.*\\.)?(?:" + key + ")", module, config_.where() + ": " + field)) return patterns.get_float(key);
  return std::nullopt;
}

int64_t LoraConfig::rank(const std::string& module) const {
  const auto special = from_pattern("rank_pattern", module);
  const int64_t rank = special ? static_cast<int64_t>(*special) : config_.get_int("r", 8);
  if (rank < 1) fail("{}: rank_pattern: expected ranks of at least 1, found {}", config_.where(), rank);
  return rank;
}

double LoraConfig::scaling(const std::string& module) const {
  const double alpha = from_pattern("alpha_pattern", module).value_or(config_.get_float("lora_alpha", 8));
  const auto rank = static_cast<double>(this->rank(module));
  return alpha / (config_.get_bool("use_rslora", false) ? std::sqrt(rank) : rank);
}

bool LoraConfig::saves(const std::string& parameter) const {
  for (const std::string& name : modules_to_save())
    for (size_t dot = parameter.find('.'); dot != parameter.npos; dot = parameter.find('.', dot + 1))
      if (ends_with_module(parameter.substr(0, dot), name)) return true;
  return false;
}

}  // namespace transom
