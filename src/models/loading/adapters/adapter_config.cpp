// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/text/unicode/regex.h"

namespace transom {
namespace {

// The fields that all kinds have, and what PEFT fills in. Who wrote a file, and how, has no effect.
constexpr const char* kCommonDefaults = R"({
  "auto_mapping": null, "base_model_name_or_path": null, "inference_mode": true, "revision": null, "task_type": null})";
constexpr std::string_view kCommonFields[] = {
    "auto_mapping", "base_model_name_or_path", "inference_mode", "peft_type", "peft_version", "revision", "task_type"};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_empty(const Json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
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

const AdapterKind& kind_of(const Config& config) {
  const std::string type = config.get_string("peft_type", "LORA");
  if (const AdapterKind* kind = find_adapter_kind(type)) return *kind;
  std::vector<std::string> known;
  for (const AdapterKind& kind : adapter_kinds()) known.emplace_back(kind.type);
  fail(ErrorKind::kUnsupported, "{}: peft_type {} is not carried out{} These are: {}", config.where(),
       transom::quoted(type), did_you_mean(type, known), fmt::join(known, ", "));
}

}  // namespace

AdapterConfig::AdapterConfig(Config config) : kind_(&kind_of(config)), config_(std::move(config)) {
  check_fields();
  const std::string kind = bias();
  if (kind != "none" && kind != "all" && kind != kind_->own_biases)
    fail("{}: bias: expected none, all or {}, found {}", config_.where(), kind_->own_biases, transom::quoted(kind));
  for (const char* rank : {"r", "init_r", "target_r"})
    if (config_.get_int(rank, 8) < 1)
      fail("{}: {}: expected a rank of at least 1, found {}", config_.where(), rank, config_.get_int(rank, 8));
  if (kind_->check) kind_->check(*this);
}

void AdapterConfig::check_fields() const {
  const bool saves_none = !config_.has("modules_to_save") || is_empty(json_of(config_).at("modules_to_save"));
  for (const auto& [field, value] : json_of(config_).items()) {
    if (is_among(kCommonFields, field) || is_among(kind_->carried_out, field) ||
        is_among(kind_->without_effect, field) || is_empty(value))
      continue;
    if (field == "modules_to_save" && kind_->saves_modules) continue;
    if (field == "ensure_weight_tying" && saves_none) continue;  // is of modules to save
    fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out", config_.where(), transom::quoted(field, 60),
         transom::quoted(value.dump(), 60));
  }
}

AdapterConfig AdapterConfig::with(std::string_view fields) {
  constexpr const char* kWhere = "the adapters' configuration";
  const Config given = Config::parse(fields, kWhere);
  const AdapterKind& kind = kind_of(given);
  Config config = Config::parse(kCommonDefaults, kWhere);
  set_field(config, "peft_type", std::string(kind.type));
  if (kind.saves_modules) set_field(config, "modules_to_save", nullptr);
  for (const Json& more : {parse_json(kind.defaults, kWhere), json_of(given)})
    for (const auto& [name, value] : more.items()) set_field(config, name, value);
  return AdapterConfig(std::move(config));
}

void AdapterConfig::set(const std::string& field, Json value) { set_field(config_, field, std::move(value)); }

bool AdapterConfig::Names::holds(const std::string& module) const {
  if (!pattern.empty()) return matches(pattern, module, "a pattern of adapter_config.json");
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return ends_with_module(module, name); });
}

AdapterConfig::Names AdapterConfig::names_of(const char* field) const {
  if (!config_.has(field)) return {};
  if (json_of(config_).at(field).is_string()) return {{}, config_.get_string(field)};
  return {config_.get_strings(field), ""};
}

bool AdapterConfig::transforms_layer_of(const std::string& module) const {
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

bool AdapterConfig::targets_all() const {
  std::string lower = names_of("target_modules").pattern;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower == "all-linear";
}

bool AdapterConfig::holds(const char* field, const std::string& module) const { return names_of(field).holds(module); }

bool AdapterConfig::targets(const std::string& module, bool is_head) const {
  if (names_of("exclude_modules").holds(module) || saves(module + ".weight")) return false;
  if (targets_all()) return !is_head;
  const Names targets = names_of("target_modules");
  if (!targets.pattern.empty()) return targets.holds(module);
  const bool named = std::find(targets.names.begin(), targets.names.end(), module) != targets.names.end();
  return named || (targets.holds(module) && transforms_layer_of(module));
}

std::optional<double> AdapterConfig::from_pattern(const char* field, const std::string& module) const {
  if (!config_.has(field)) return std::nullopt;
  const Config patterns = config_.get_object(field);
  for (const std::string& key : patterns.keys())
    if (matches("(?:.*\\.)?(?:" + key + ")", module, config_.where() + ": " + field)) return patterns.get_float(key);
  return std::nullopt;
}

int64_t AdapterConfig::rank(const std::string& module) const {
  const auto special = from_pattern("rank_pattern", module);
  const int64_t rank = special ? static_cast<int64_t>(*special) : config_.get_int("r", 8);
  if (rank < 1) fail("{}: rank_pattern: expected ranks of at least 1, found {}", config_.where(), rank);
  return rank;
}

double AdapterConfig::scaling(const std::string& module) const {
  const double alpha =
      from_pattern("alpha_pattern", module)
          .value_or(config_.has("alpha") ? config_.get_float("alpha") : config_.get_float("lora_alpha", 8));
  const auto rank = static_cast<double>(this->rank(module));
  return alpha / (config_.get_bool("use_rslora", false) ? std::sqrt(rank) : rank);
}

bool AdapterConfig::saves(const std::string& parameter) const {
  for (const std::string& name : modules_to_save())
    for (size_t dot = parameter.find('.'); dot != parameter.npos; dot = parameter.find('.', dot + 1))
      if (ends_with_module(parameter.substr(0, dot), name)) return true;
  return false;
}

}  // namespace transom
