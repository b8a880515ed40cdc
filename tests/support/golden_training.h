// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/json/json.h"
#include "transom/training_arguments.h"

namespace transom::test {

// The settings with which PyTorch trained on the batch of a golden case.
inline TrainingArguments training_arguments(const std::filesystem::path& golden_case) {
  const Json given = read_json(golden_case / "train.json")["hyperparameters"];
  TrainingArguments arguments;
  arguments.learning_rate = given["learning_rate"];
  arguments.adam_beta1 = given["betas"][0];
  arguments.adam_beta2 = given["betas"][1];
  arguments.adam_epsilon = given["eps"];
  arguments.weight_decay = given["weight_decay"];
  arguments.max_grad_norm = given["max_grad_norm"];
  arguments.warmup_steps = given["num_warmup_steps"];
  arguments.max_steps = given["num_training_steps"];
  return arguments;
}

}  // namespace transom::test
