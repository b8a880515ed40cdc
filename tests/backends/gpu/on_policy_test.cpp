// SPDX-License-Identifier: Apache-2.0
// Samples of the engine have the bits of a training pass, on OpenCL's emulated device.
#include <gtest/gtest.h>

#include "backends/gpu/gpu_device.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

// Of a LLaMA with grouped heads and widths that no tile divides: f32 and bf16, plain, with LoRA and over codes.
TEST(GpuOnPolicy, SamplesHaveTheBitsOfTraining) {
  backend_test::use_emulated_drivers();
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("opencl") == std::string::npos)
    GTEST_SKIP() << "no OpenCL device is here";
  set_device("cpu");
  Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
      "max_position_embeddings": 128, "hidden_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 52, "initializer_range": 0.4})",
                     {.seed = 3})
      ->save_pretrained((folder / "model").string());
  const test::Outcome outcome = test::Program({"certify", "--seed", "1", "--device", "opencl", "--level", "on-policy",
                                               "--prompts", "4", "--json", (folder / "model").string()},
                                              folder)
                                    .wait();
  ASSERT_EQ(outcome.status, 0) << outcome.output << outcome.error;
  const Json report = parse_json(outcome.output, "the certificate");
  ASSERT_EQ(report["rows"].size(), 6u);
  for (const Json& row : report["rows"]) {
    EXPECT_EQ(row["verdict"], "pass") << row.dump();
    EXPECT_GE(row["cases"], 4) << row.dump();
  }
}

}  // namespace
}  // namespace transom
