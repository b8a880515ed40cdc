// SPDX-License-Identifier: Apache-2.0
// Whether a device gives samples of the engine the bits that a training pass gives them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom::test {

// Of a LLaMA with grouped heads and widths that no tile divides: f32 and bf16, plain, with LoRA and over codes.
inline void expect_on_policy(const std::string& device, const TemporaryFolder& folder) {
  constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
      "max_position_embeddings": 128, "hidden_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 52, "initializer_range": 0.4})";
  set_device("cpu");
  Model::from_config(kLlama, {.seed = 3})->save_pretrained((folder / "model").string());
  const Outcome outcome = Program({"certify", "--seed", "1", "--device", device, "--level", "on-policy", "--prompts",
                                   "6", "--json", (folder / "model").string()},
                                  folder)
                              .wait();
  ASSERT_EQ(outcome.status, 0) << outcome.output << outcome.error;
  const Json report = Json::parse(outcome.output);
  ASSERT_EQ(report.at("rows").size(), 6u);
  for (const Json& row : report.at("rows")) {
    EXPECT_EQ(row.at("verdict"), "pass") << row.dump();
    EXPECT_GE(row.at("cases"), 6) << row.dump();
  }
}

}  // namespace transom::test
