// SPDX-License-Identifier: Apache-2.0
// Weights that were pruned in blocks are multiplied as their blocks, by inference.
#include <gtest/gtest.h>

#include "ipu_options.h"
#include "testing/ranks.h"
#include "testing/safetensors.h"

namespace transom {
namespace {

using namespace test;

class IpuBlockSparseWeights : public test::IpuOptions {
 protected:
  void SetUp() override {
    ::setenv("TRANSOM_LOG", "memory", 1);
    IpuOptions::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(folder_ / "model");
    write_file(folder_ / "config.json", R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
      "vocab_size": 40, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256,
      "max_position_embeddings": 16, "initializer_range": 0.1})");
    set_device("cpu");
    Model::from_config(read_file(folder_ / "config.json"), {.seed = 5})->save_pretrained((folder_ / "model").string());
    std::vector<int64_t> tokens(3 * 7);  // 21 rows: no whole number of blocks
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i * 7 % 40);
    write_integers(folder_ / "in.safetensors", {"input_ids"}, {3, 7}, tokens);
  }
  void TearDown() override {
    ::unsetenv("TRANSOM_LOG");
    IpuOptions::TearDown();
  }
  void prune(const std::string& sparsity, const std::string& pattern) {
    const Outcome outcome = Program({"prune", (folder_ / "model").string(), (folder_ / "pruned").string(), "--pattern",
                                     pattern, "--sparsity", sparsity},
                                    folder_)
                                .wait();
    ASSERT_EQ(outcome.status, 0) << outcome.error;
  }
  Outcome forward(const std::string& model, const std::string& device, const std::string& dtype = "float32") {
    const Outcome outcome = Program({"forward", "--device", device, "--model", (folder_ / model).string(), "--inputs",
                                     (folder_ / "in.safetensors").string(), "--outputs",
                                     (folder_ / (model + device)).string(), "--dtype", dtype},
                                    folder_)
                                .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome;
  }
  std::vector<float> logits(const std::string& name) {
    return test::read_safetensors(folder_ / name).at("logits").to_vector<float>();
  }
};

TEST_F(IpuBlockSparseWeights, GiveTheNumbersOfTheWholeOnes) {
  prune("0.75", "16x16");
  forward("pruned", "cpu");
  const Outcome outcome = forward("pruned", "ipu");
  // Six linear layers in each of two blocks; pooler and head are whole.
  EXPECT_NE(outcome.error.find(", 12 weights as their blocks"), std::string::npos) << outcome.error;
  const std::vector<float> expected = logits("prunedcpu"), found = logits("prunedipu");
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST_F(IpuBlockSparseWeights, ThatAreWholeStayWhole) {
  EXPECT_EQ(forward("model", "ipu").error.find("weights as their blocks"), std::string::npos);
  prune("0.75", "1x1");  // zeros everywhere, but no block of them
  EXPECT_EQ(forward("pruned", "ipu").error.find("weights as their blocks"), std::string::npos);
}

TEST_F(IpuBlockSparseWeights, AreKeptByTheirBlocks) {
  configure(R"({"executable_cache_dir": ")" + (folder_ / "cache").string() + "\"}");
  prune("0.75", "16x16");
  forward("pruned", "ipu");
  const std::vector<float> first = logits("prunedipu");
  const Outcome again = forward("pruned", "ipu");
  EXPECT_NE(again.error.find(", 12 weights as their blocks, compiled before"), std::string::npos) << again.error;
  EXPECT_EQ(logits("prunedipu"), first);
  // The same shapes with other blocks are another program.
  fs::remove_all(folder_ / "pruned");
  prune("0.6", "16x16");
  const Outcome other = forward("pruned", "ipu");
  EXPECT_NE(other.error.find(", 12 weights as their blocks: "), std::string::npos) << other.error;
  EXPECT_NE(logits("prunedipu"), first);
  forward("pruned", "cpu");
  const std::vector<float> expected = logits("prunedcpu"), found = logits("prunedipu");
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace transom
