// SPDX-License-Identifier: Apache-2.0
// Models with adapters, in PEFT's format: adapter_config.json and adapter_model.safetensors beside the model that they
// were trained on. Which kinds there are says adapter_kind.h.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "models/loading/adapters/adapter_config.h"
#include "models/loading/adapters/adapter_file.h"
#include "models/loading/adapters/adapter_making.h"
#include "models/loading/adapters/virtual_tokens.h"
#include "transom/model.h"

namespace transom {

// The adapters of one model. Its parameters() are those of the adapters (and of modules_to_save, and biases where the
// configuration trains them); all others are frozen().
class Adaptation {
 public:
  // Gives the model new adapters. Completes the configuration with PEFT's target modules for the type of the model, its
  // task type, and the head among the modules to save.
  static void add(Model& model, AdapterConfig config, uint64_t seed);
  // Loads a directory of PEFT. With `keep_adapters` they stay beside the weights, and can be trained; otherwise they
  // are merged into them, but for those that cannot be.
  static std::unique_ptr<Model> load(const fs::path& directory, LoadOptions options, LoadReport* report);

  // Takes the values of a directory that the same model was saved into.
  void load_values(const fs::path& directory);
  void save(const fs::path& directory) const;

  const AdapterConfig& config() const { return config_; }
  // Why they could not be merged; empty: they can.
  std::string unmerged() const;
  // What stands before each row; null: nothing.
  const VirtualTokens* virtual_tokens() const { return tokens_.get(); }
  // What they add to training besides their tensors; null: nothing.
  AdapterTraining* training() const { return training_.get(); }

  // The pass of a model with these adapters.
  NamedTensors run(const Model& model, const NamedTensors& inputs, const ForwardContext& context) const;

 private:
  class Making;
  struct Saved {
    std::string key;   // in its file
    std::string name;  // the same as AdapterFile has it
    std::shared_ptr<Parameter> parameter;
    AdapterMaking::Kept kept;
  };
  enum class Source { kNew, kFile, kFileForTraining };
  explicit Adaptation(AdapterConfig config) : config_(std::move(config)) {}
  // Whether any parameter is trained whole.
  bool attach(Model& model, uint64_t seed);
  // Whether all could be merged. If not, nothing was.
  bool merge(Model& model) const;
  NamedTensors run_behind_tokens(const Model& model, const NamedTensors& inputs, ForwardContext context) const;
  void take(const Saved& saved, const TensorView& view, const std::string& where) const;
  void take_of_model(const std::string& name, const TensorView& view, const std::string& where) const;

  AdapterConfig config_;
  Source source_ = Source::kNew;
  std::vector<Saved> saved_;
  std::set<const Parameter*> made_;                 // all tensors that are the adapters' own
  std::vector<std::shared_ptr<Parameter>> frozen_;  // of the model, which it shares
  std::unique_ptr<VirtualTokens> tokens_;
  std::shared_ptr<AdapterTraining> training_;
};

// What a configuration of new adapters does not say follows from the model: its target modules and its task.
void complete_adapters(AdapterConfig& config, const Model& model);

// Refuses a model beside whose weights adapters stay, for who needs weights alone.
void expect_merged(const Model& model);

// The pipeline's name of the task that the adapters are for; empty where their configuration does not say.
std::string task_of_adapters(const fs::path& directory);

}  // namespace transom
