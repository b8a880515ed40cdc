// SPDX-License-Identifier: Apache-2.0
// Models with low-rank adapters, in PEFT's format: adapter_config.json and adapter_model.safetensors beside the model
// that they were trained on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"
#include "models/loading/adapters/lora_config.h"
#include "transom/model.h"

namespace transom {

// PEFT's file of an adapter's weights, and what stands before the names in it.
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// The adapters of one model. Its parameters() are those of the adapters (and of modules_to_save, and biases where the
// configuration trains them); all others are frozen().
class Adaptation {
 public:
  // Gives the model new adapters: A random, B zero. Completes the configuration with PEFT's target modules for the type
  // of the model, its task type, and the head among the modules to save.
  static void add(Model& model, LoraConfig config, uint64_t seed);
  // Loads a directory of PEFT. With `keep` the adapters stay beside the weights, and can be trained; otherwise they are
  // merged into them, but for those whose bias no layer can take.
  static std::unique_ptr<Model> load(const fs::path& directory, LoadOptions options, LoadReport* report);

  // Takes the values of a directory that the same model was saved into.
  void load_values(const fs::path& directory) const;
  void save(const fs::path& directory) const;

  const LoraConfig& config() const { return config_; }

 private:
  struct Saved {
    std::string key;  // in adapter_model.safetensors
    std::shared_ptr<Parameter> parameter;
  };
  explicit Adaptation(LoraConfig config) : config_(std::move(config)) {}
  // Whether any parameter is trained whole.
  bool attach(Model& model, uint64_t seed);
  // Whether all could be merged: the bias of a matrix B needs a layer with a bias. If not, nothing was.
  static bool merge(Model& model);

  LoraConfig config_;
  std::vector<Saved> saved_;
  std::vector<std::shared_ptr<Parameter>> frozen_;  // of the model, which it shares
};

// Whether a directory holds adapters of PEFT.
bool holds_adapters(const fs::path& directory);
// The pipeline's name of the task that the adapters are for; empty where their configuration does not say.
std::string task_of_adapters(const fs::path& directory);

}  // namespace transom
