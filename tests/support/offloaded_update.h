// SPDX-License-Identifier: Apache-2.0
// Steps of training whose optimizer state lies in host memory, beside the same ones with the state on the device in
// use.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/tensor/host_values.h"
#include "transom/device.h"
#include "work/train/step/train_step.h"

namespace transom::test {

struct OffloadedRun {
  std::vector<float> numbers;  // losses and norms
  std::vector<std::vector<std::byte>> weights, states;
  uint64_t peak = 0, between = 0;  // bytes on the device: during an update, and between two
  bool on_host = true;             // all of the state, between updates
};

// Four layers of 198,000 parameters, whose activations are few.
inline OffloadedRun run_updates(TrainingArguments arguments, bool offloads, int updates = 3, int micro_batches = 1) {
  constexpr const char* kBert =
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 50,
      "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 512,
      "max_position_embeddings": 16, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0})";
  const auto model = Model::from_config(kBert, {.seed = 3});
  for (const auto& parameter : model->parameters()) parameter->value.set_requires_grad();
  if (offloads) arguments.offload_optimizer_device = "cpu";
  TrainStep step(*model, arguments);
  OffloadedRun run;
  const std::shared_ptr<Device> device = default_device();
  for (int update = 0; update < updates; ++update) {
    std::vector<NamedTensors> batches;
    for (int64_t k = 0; k < micro_batches; ++k) {
      NamedTensors inputs;
      inputs.set("input_ids", Tensor::from(std::vector<int64_t>{1, 2, 3 + k, 4, 5, 6, 7, 8 + update}, {2, 4}));
      inputs.set("labels", Tensor::from(std::vector<int64_t>{0, 1}, {2}));
      batches.push_back(std::move(inputs));
    }
    device->synchronize();
    transom_error error{};
    if (update > 0 && device->table().memory_reset_peak)
      device->expect_ok(device->table().memory_reset_peak(device->handle(), &error), error);
    const TrainStep::Result result = step(batches, 0.01, update);
    run.numbers.push_back(result.loss.item<float>());
    run.numbers.push_back(result.gradient_norm.item<float>());
    run.peak = memory_use().peak;
    run.between = memory_use().in_use;
  }
  for (const auto& parameter : model->parameters()) run.weights.push_back(parameter->value.to_bytes());
  for (const auto& [name, state] : step.optimizer().state()) {
    run.on_host &= is_in_host_memory(state);
    run.states.push_back(state.to_bytes());
  }
  return run;
}

// The same bits, and no more of the state on the device than a part.
inline void expect_same_bits_with_less_memory() {
  TrainingArguments arguments;
  arguments.max_grad_norm = 0.5;
  // First, since the memory of what lives within a program stays as large as its largest one needed it.
  const OffloadedRun offloaded = run_updates(arguments, true), there = run_updates(arguments, false);
  EXPECT_EQ(there.numbers, offloaded.numbers);
  EXPECT_TRUE(there.weights == offloaded.weights);
  EXPECT_TRUE(there.states == offloaded.states);
  EXPECT_FALSE(there.on_host);
  EXPECT_TRUE(offloaded.on_host);
  size_t states = 0;
  for (const auto& state : there.states) states += state.size();
  std::printf("%s: %zu bytes of state; in use between updates %zu, offloaded %zu; peak %zu, offloaded %zu\n",
              device_name().c_str(), states, static_cast<size_t>(there.between), static_cast<size_t>(offloaded.between),
              static_cast<size_t>(there.peak), static_cast<size_t>(offloaded.peak));
  EXPECT_LT(offloaded.between + states * 9 / 10, there.between);
  EXPECT_LT(offloaded.peak + states / 5, there.peak);
}

}  // namespace transom::test
