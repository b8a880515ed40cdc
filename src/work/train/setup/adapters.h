// SPDX-License-Identifier: Apache-2.0
// LoRA in `transom train`: from --use_peft and its like to a model whose adapters alone are trained.
#pragma once

#include <string>

#include "transom/model.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"

namespace transom {

// A model to train; where the arguments ask for new adapters and for a module to save that shares its weight with
// another, each has a weight of its own.
std::unique_ptr<Model> load_base_model(const TrainArguments& arguments, const std::string& directory,
                                       const LoadOptions& options, LoadReport* report = nullptr);

// Gives the model new adapters where the arguments ask for them and it has none. `base` is how adapter_config.json
// names the model; `data`, which may be null, is what it is to be trained on, which adapters may begin with.
void add_adapters(const TrainArguments& arguments, const std::string& base, Model& model, const TrainingData* data);

// LoadOptions::quantization of a model that is trained. Beside adapters the codes of a compressed checkpoint stay, and
// plain weights become codes where the arguments ask for it (QLoRA: Dettmers et al., 2023); without adapters all are
// plain.
std::string quantization_in_training(const ScriptArguments& script);

}  // namespace transom
