// SPDX-License-Identifier: Apache-2.0
// The record of a kind of PEFT's adapters: everything that any part of the program asks about it. Each file of kinds/
// defines one and registers it.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/family/weights.h"
#include "transom/tensor.h"

namespace transom {

class AdapterConfig;
class AdapterMaking;
class Config;
class Model;
class VirtualTokens;

struct AdapterKind {
  std::string_view type;  // peft_type of adapter_config.json: "IA3"
  std::string_view what;  // in a few words, for messages: "vectors that scale activations"
  // The fields that it has beside those of all kinds, as PEFT fills them in where nobody does: a JSON object.
  std::string_view defaults;
  // Those that are carried out, and those that have no effect on adapters that are there. The rest is known, and only
  // its empty value is taken, as of fields that are not known.
  std::vector<std::string_view> carried_out;
  std::vector<std::string_view> without_effect = {};

  // ---- of kinds that change modules; null: it changes none
  std::vector<std::string> (*usual_targets)(const FamilyWeights& weights) = nullptr;  // where nobody names any
  bool takes_linear = true;                                                           // weights of linear layers
  bool takes_tables = false;                                                          // tables of vectors
  bool takes_vectors = false;                                                         // weights [D] of norms
  // Gives the modules of making.targets their adapters.
  void (*attach)(AdapterMaking& making) = nullptr;
  // What adapter_model.safetensors holds of a tensor; null: all of it.
  Tensor (*as_saved)(const AdapterConfig& config, const std::string& name, const Tensor& value) = nullptr;

  // ---- of kinds that put virtual tokens before each row
  std::unique_ptr<VirtualTokens> (*virtual_tokens)(AdapterMaking& making) = nullptr;

  // ---- of all
  // Refuses fields that do not go together.
  void (*check)(const AdapterConfig& config) = nullptr;
  // Fills in what follows from the model, before new adapters are made.
  void (*complete)(AdapterConfig& config, const Model& model) = nullptr;
  std::string_view prefix = "base_model.model.";  // of names in adapter_model.safetensors
  bool saves_modules = true;                      // modules_to_save is a field of it
  std::string_view own_biases = "lora_only";      // what `bias` says where those of changed layers are trained
  std::string_view unmerged = {};                 // why it cannot become part of the weights; empty: it can
};

// All of them, in the order of their types.
const std::vector<AdapterKind>& adapter_kinds();
// By peft_type; null: it is not carried out.
const AdapterKind* find_adapter_kind(std::string_view type);

// Whether a kind of this name carries the field out.
bool adapter_kind_takes(std::string_view type, std::string_view field);

// At the end of a kind's file: const RegisterAdapterKind kIa3{ia3_kind};
struct RegisterAdapterKind {
  explicit RegisterAdapterKind(AdapterKind (*record)());
};

}  // namespace transom
