// SPDX-License-Identifier: Apache-2.0
// Steps of training whose optimizer state lies in host memory, beside the same ones with the state on the device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom::test {

// The same bits, and no more of the state on the device than a part.
inline void expect_same_bits_with_less_memory(const std::string& device, const TemporaryFolder& folder) {
  // Four layers of 198,000 parameters, whose activations are few.
  constexpr const char* kBert =
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 50,
      "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 512,
      "max_position_embeddings": 16, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0, "pad_token_id": 0})";
  set_device("cpu");
  Model::from_config(kBert, {.seed = 3})->save_pretrained((folder / "model").string());
  write_rows(folder / "rows.jsonl", 12);
  const auto train = [&](const char* output, const char* where) {
    const Outcome outcome =
        Program(training_words(folder, device, output, 2,
                               {"--max_steps", "3", "--max_grad_norm", "0.5", "--save_steps", "3",
                                "--skip_memory_metrics", "false", "--offload_optimizer_device", where}),
                folder)
            .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.output;
  };
  EXPECT_EQ(train("there", "none"), train("offloaded", "cpu"));
  for (const char* file : {"model.safetensors", "checkpoint-3/optimizer.safetensors"})
    EXPECT_TRUE(read_file(folder / "there" / file) == read_file(folder / "offloaded" / file)) << file;
  const auto state = static_cast<double>(fs::file_size(folder / "there" / "checkpoint-3" / "optimizer.safetensors"));
  const auto bytes = [&](const char* output, const char* name) {
    return read_json(folder / output / "all_results.json").at(name).get<double>();
  };
  EXPECT_LT(bytes("offloaded", "train_mem_gpu_alloc_delta") + 0.9 * state, bytes("there", "train_mem_gpu_alloc_delta"));
}

}  // namespace transom::test
