// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of PEFT: which kind of adapters, on which modules, and how large. What would change the
// mathematics and is not carried out is refused by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/config/config.h"
#include "models/loading/adapters/adapter_kind.h"

namespace transom {

class AdapterConfig {
 public:
  // Errors name the file and the field.
  explicit AdapterConfig(Config config);
  // What PEFT's configuration of this peft_type (LORA where there is none) has where nothing is said, with these fields
  // (a JSON object) in place.
  static AdapterConfig with(std::string_view fields);

  const AdapterKind& kind() const { return *kind_; }
  const Config& fields() const { return config_; }

  // Whether the module of this name (of a weight without .weight) is changed. `is_head`: it is the layer that gives
  // words or classes, which "all-linear" leaves out.
  bool targets(const std::string& module, bool is_head) const;
  bool targets_all() const;  // "all-linear"
  bool says_targets() const { return config_.has("target_modules"); }
  // Whether names or a pattern of a field, in PEFT's way of writing target_modules, hold the module.
  bool holds(const char* field, const std::string& module) const;
  // Whether the parameter belongs to one of modules_to_save, which are trained whole.
  bool saves(const std::string& parameter) const;
  std::vector<std::string> modules_to_save() const { return config_.get_strings("modules_to_save"); }

  // Of kinds with matrices of a rank, for one module.
  int64_t rank(const std::string& module) const;
  double scaling(const std::string& module) const;  // alpha / rank, or alpha / sqrt(rank) with use_rslora

  std::string bias() const { return config_.get_string("bias", "none"); }  // none, all or lora_only
  std::string task_type() const { return config_.get_string("task_type", ""); }
  std::string base_model() const { return config_.get_string("base_model_name_or_path", ""); }
  void set(const std::string& field, Json value);
  std::string dump() const { return config_.dump(); }
  const std::string& where() const { return config_.where(); }

 private:
  // The names or the pattern of a field that PEFT has in both forms.
  struct Names {
    std::vector<std::string> names;
    std::string pattern;  // a regular expression for the whole name
    bool holds(const std::string& module) const;
  };
  Names names_of(const char* field) const;
  bool transforms_layer_of(const std::string& module) const;
  std::optional<double> from_pattern(const char* field, const std::string& module) const;
  void check_fields() const;

  const AdapterKind* kind_;
  Config config_;
};

}  // namespace transom
