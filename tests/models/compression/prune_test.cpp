// SPDX-License-Identifier: Apache-2.0
// Pruned models have the zeros that were asked for, at the least important places.
#include "models/compression/prune.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/numbers/mt19937.h"
#include "support/message.h"
#include "support/word_models.h"
#include "transom/gradients.h"

namespace transom {
namespace {

using test::message_of;

constexpr const char* kLlamaDense = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 12,
  "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2})";

void write_text(const fs::path& path) {
  Mt19937 random(9);
  std::string text;
  for (int i = 0; i < 900; ++i) text += "w" + std::to_string(random.randint(11)) + " ";
  write_file(path, text);
}

const Parameter& weight_of(const Model& model, const std::string& name) {
  for (const auto& parameter : model.parameters())
    if (parameter->name == name) return *parameter;
  throw std::runtime_error(name);
}

TEST(Pruning, ByMagnitudeCutsTheSmallestOfALayer) {
  const auto model = Model::from_config(kLlamaDense, {.seed = 5});
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const auto before = weight_of(*model, name).value.to_vector<float>();
  const auto head = weight_of(*model, "lm_head.weight").value.to_vector<float>();
  const PruneReport report = prune_model(*model, {}, {.sparsity = 0.3});
  const auto after = weight_of(*model, name).value.to_vector<float>();
  float largest_cut = 0, smallest_kept = 100;
  int64_t zeros = 0;
  for (size_t i = 0; i < before.size(); ++i)
    if (after[i] == 0) largest_cut = std::max(largest_cut, std::abs(before[i])), ++zeros;
    else {
      EXPECT_EQ(after[i], before[i]);
      smallest_kept = std::min(smallest_kept, std::abs(before[i]));
    }
  EXPECT_LE(largest_cut, smallest_kept);
  EXPECT_EQ(zeros, static_cast<int64_t>(0.3 * static_cast<double>(before.size())));
  EXPECT_EQ(weight_of(*model, "lm_head.weight").value.to_vector<float>(), head);
  EXPECT_EQ(report.layers.size(), 14u);
  EXPECT_NEAR(static_cast<double>(report.zeros) / static_cast<double>(report.weights), 0.3, 0.001);
}

TEST(Pruning, ByAPatternKeepsSomeOfEachFew) {
  for (const bool turned : {false, true}) {
    const auto model = Model::from_config(turned ? test::kWordGpt2 : kLlamaDense, {.seed = 5});
    prune_model(*model, {}, {.pattern = "2:4"});
    for (const auto& parameter : model->parameters()) {
      if (parameter->use == Parameter::Use::kOther || parameter->name == "lm_head.weight") continue;
      const Shape shape = parameter->value.shape();
      const auto w = parameter->value.to_vector<float>();
      // Inputs are columns, or rows of a turned weight.
      const int64_t inputs = shape[turned ? 0 : 1], outputs = shape[turned ? 1 : 0];
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t k = 0; k + 4 <= inputs; k += 4) {
          int zeros = 0;
          for (int64_t i = k; i < k + 4; ++i)
            zeros += w[static_cast<size_t>(turned ? i * outputs + o : o * inputs + i)] == 0;
          ASSERT_EQ(zeros, 2) << parameter->name;
        }
    }
  }
}

TEST(Pruning, InBlocksCutsTheLeastOfThemWhole) {
  const auto model = Model::from_config(kLlamaDense, {.seed = 5});
  const std::string name = "model.layers.1.mlp.up_proj.weight";  // 44 outputs by 32 inputs: the last blocks have 4 rows
  const auto before = weight_of(*model, name).value.to_vector<float>();
  prune_model(*model, {}, {.sparsity = 0.5, .pattern = "8x16"});
  const auto after = weight_of(*model, name).value.to_vector<float>();
  double largest_cut = 0, smallest_kept = 100;
  int cut = 0;
  for (size_t block = 0; block < 12; ++block) {
    double square = 0;
    size_t zeros = 0, count = 0;
    for (size_t row = block / 2 * 8; row < std::min<size_t>(44, block / 2 * 8 + 8); ++row)
      for (size_t column = block % 2 * 16; column < block % 2 * 16 + 16; ++column) {
        const size_t i = row * 32 + column;
        square += before[i] * before[i], ++count, zeros += after[i] == 0;
        if (after[i] != 0) {
          EXPECT_EQ(after[i], before[i]);
        }
      }
    ASSERT_TRUE(zeros == 0 || zeros == count) << block;
    const double mean = square / static_cast<double>(count);
    if (zeros) largest_cut = std::max(largest_cut, mean), ++cut;
    else smallest_kept = std::min(smallest_kept, mean);
  }
  EXPECT_EQ(cut, 6);
  EXPECT_LE(largest_cut, smallest_kept);
  EXPECT_NE(message_of([&] { prune_model(*model, {}, {.pattern = "16x"}); }).find("--pattern"), std::string::npos);
  EXPECT_NE(message_of([&] { prune_model(*model, {}, {.pattern = "0x16"}); }).find("--pattern"), std::string::npos);
}

TEST(Pruning, ByInputsLosesLessOfTheOutputs) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, kLlamaDense);
  write_text(folder / "text.txt");
  const CalibrationTextOptions texts{.calibration_file = (folder / "text.txt").string(), .length = 32};
  // An input that is always large makes its weights important, however small they are.
  const auto model = Model::from_pretrained(folder.string());
  for (const auto& parameter : model->parameters())
    if (parameter->name == "model.layers.0.input_layernorm.weight") {
      auto values = parameter->value.to_vector<float>();
      values[3] = 50;
      parameter->value = Tensor::from(values, parameter->value.shape());
    }
  const auto rows = read_calibration_texts(*model, folder.string(), texts);
  const PruneReport report = prune_model(*model, rows, {.method = "wanda", .sparsity = 0.5, .texts = texts});
  const auto w = weight_of(*model, "model.layers.0.self_attn.q_proj.weight").value.to_vector<float>();
  for (size_t row = 0; row < 32; ++row) {
    EXPECT_NE(w[row * 32 + 3], 0);
    int zeros = 0;
    for (size_t k = 0; k < 32; ++k) zeros += w[row * 32 + k] == 0;
    EXPECT_EQ(zeros, 16) << "half of each row";
  }
  EXPECT_EQ(report.layers.size(), 14u);
  EXPECT_GT(report.calibration_rows, 0);
  ASSERT_TRUE(report.loss_before && report.loss_after);
}

TEST(Pruning, OfACheckpointIsReadBack) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, kLlamaDense);
  prune_checkpoint(folder.string(), (folder / "out").string(), {.pattern = "1:4"});
  const auto model = Model::from_pretrained((folder / "out").string());
  const auto w = weight_of(*model, "model.layers.0.self_attn.q_proj.weight").value.to_vector<float>();
  EXPECT_EQ(std::count(w.begin(), w.end(), 0.0f), 3 * 32 * 32 / 4);
}

TEST(Pruning, RefusesByTheFlag) {
  const auto model = Model::from_config(kLlamaDense);
  const auto refusal = [&](const PruneOptions& options) {
    return message_of([&] { prune_model(*model, {}, options); });
  };
  EXPECT_EQ(refusal({.method = "lottery"}), "--method: expected magnitude or wanda, found 'lottery'");
  EXPECT_EQ(refusal({.sparsity = 1}), "--sparsity: expected a part above 0 and below 1, found 1");
  EXPECT_EQ(refusal({.method = "wanda"}), "--calibration_file: wanda needs a text");
  for (const char* pattern : {"4:2", "2", "2:", ":4", "0:4", "2:4x", "-1:4", "2:9999999999999999999"})
    EXPECT_EQ(refusal({.pattern = pattern}),
              "--pattern: expected N:M as 2:4, N of each M weights are kept, or RxC as 16x16, blocks of R outputs by C "
              "inputs; M, R and C up to 256; found '" +
                  std::string(pattern) + "'");
}

}  // namespace
}  // namespace transom
