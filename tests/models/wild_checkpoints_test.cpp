// SPDX-License-Identifier: Apache-2.0
// Checkpoints of tests/wild/files: the logits are those of Transformers.
#include <gtest/gtest.h>

#include <cmath>

#include "files/checkpoint/safetensors.h"
#include "support/folders.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

class WildCheckpoint : public testing::TestWithParam<std::string> {};

TEST_P(WildCheckpoint, GivesTheLogitsOfTransformers) {
  const fs::path folder = fs::path(test::source_folder()) / "tests/wild/files" / GetParam();
  LoadReport report;
  const auto model = Model::from_pretrained(folder.string(), {}, &report);
  EXPECT_TRUE(report.missing.empty()) << report.missing[0];
  NamedTensors inputs;
  for (const auto& [name, view] : SafetensorsFile::open(folder / "in.safetensors").tensors())
    inputs.set(name, Tensor::from_bytes(view.bytes, {view.dtype, view.shape}));
  const NoGradient inference;
  const Tensor logits = model->forward(inputs).at("logits");
  const TensorView expected = *SafetensorsFile::open(folder / "expected.safetensors").find("logits");
  ASSERT_EQ(logits.shape(), expected.shape);
  const auto got = logits.to_vector<float>();
  const auto want = Tensor::from_bytes(expected.bytes, {expected.dtype, expected.shape}).to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * (1 + std::fabs(want[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(Files, WildCheckpoint,
                         testing::Values("bert-mlm-decoder-bias-only", "bin-legacy", "index-extra-entry",
                                         "tied-save_model-gpt2", "tied-save_model-llama"),
                         test::NameOfCase());

// sym excludes the zero points of 9 that the flag asks for (vllm#38966): they are those of version 2.
TEST(WildGptq, ZeroPointsOfTheOtherVersionAreKnownBySymmetry) {
  const fs::path folder = fs::path(test::source_folder()) / "tests/wild/files/gptq-v2-zeros-flagged-v1";
  const test::TemporaryFolder second;
  fs::copy(folder / "model.safetensors", second / "model.safetensors");
  std::string config = read_file(folder / "config.json");
  const std::string says = "\"checkpoint_format\": \"gptq\"";
  ASSERT_NE(config.find(says), config.npos);
  write_file(second / "config.json",
             config.replace(config.find(says), says.size(), "\"checkpoint_format\": \"gptq_v2\""));
  const auto flagged = Model::from_pretrained(folder.string(), {.quantization = "decompressed"}),
             as_meant = Model::from_pretrained(second.string(), {.quantization = "decompressed"});
  ASSERT_EQ(flagged->parameters().size(), as_meant->parameters().size());
  for (size_t i = 0; i < flagged->parameters().size(); ++i)
    EXPECT_EQ(flagged->parameters()[i]->value.to_bytes(), as_meant->parameters()[i]->value.to_bytes());
}

}  // namespace
}  // namespace transom
