// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of PEFT, for LoRA: which modules have adapters, and of which rank. What would change the
// mathematics and is not carried out (PiSSA ...) is refused by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/config/config.h"

namespace transom {

class LoraConfig {
 public:
  // Errors name the file and the field.
  explicit LoraConfig(Config config);
  // What PEFT's LoraConfig has where nothing is said, with these fields (a JSON object) in place.
  static LoraConfig with(std::string_view fields);

  // Whether the linear module of this name (without .weight) has an adapter. `is_head`: it is the layer that gives
  // words or classes, which "all-linear" leaves out.
  bool targets(const std::string& module, bool is_head) const;
  int64_t rank(const std::string& module) const;
  double scaling(const std::string& module) const;  // alpha / rank, or alpha / sqrt(rank) with use_rslora
  // Whether the parameter belongs to one of modules_to_save, which are trained whole.
  bool saves(const std::string& parameter) const;

  double dropout() const { return config_.get_float("lora_dropout", 0); }
  std::string bias() const { return config_.get_string("bias", "none"); }  // none, all or lora_only
  // How new matrices are made: A as torch.nn.Linear draws it and B zero, A of a normal distribution and B zero, both as
  // torch.nn.Linear draws them, or from the weight's QR decomposition (OLoRA: Büyükakyüz, 2024), which takes their
  // product out of the weight.
  enum class Initial { kLinear, kGaussian, kBothLinear, kOrthonormal };
  Initial initial() const;
  bool use_dora() const { return config_.get_bool("use_dora", false); }
  bool lora_bias() const { return config_.get_bool("lora_bias", false); }  // whether B has a bias
  std::string task_type() const { return config_.get_string("task_type", ""); }
  std::string base_model() const { return config_.get_string("base_model_name_or_path", ""); }
  std::vector<std::string> modules_to_save() const { return config_.get_strings("modules_to_save"); }
  bool targets_all() const;  // "all-linear"
  bool says_targets() const { return config_.has("target_modules"); }
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

  Config config_;
};

}  // namespace transom
