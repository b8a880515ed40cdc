// SPDX-License-Identifier: Apache-2.0
// Static shapes: texts of random lengths in one training run need no more recipes than there are buckets, and the
// numbers are those of the run that pads each batch to its longest row. TRANSOM_LENGTHS=200 tries as many lengths.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "hpu_device.h"
#include "testing/files.h"
#include "testing/small_model.h"
#include "testing/temporary_folder.h"
#include "transom/fine_tuning.h"

namespace transom {
namespace {

constexpr const char* kModel = R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
  "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
  "max_position_embeddings": 256, "type_vocab_size": 2, "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0, "id2label": {"0": "a", "1": "b"}, "pad_token_id": 0})";

class HpuShapes : public testing::Test {
 protected:
  void SetUp() override {
    test::require_hpu();
    if (IsSkipped()) return;
    if (const char* count = std::getenv("TRANSOM_LENGTHS")) lengths_ = std::atoi(count);
    Model::from_config(kModel, {.seed = 3})->save_pretrained((folder_ / "model").string());
    std::mt19937 random(5);
    std::string text;
    for (int i = 0; i < 2 * lengths_ + 1; ++i) {  // batches of 2, and one row left over
      text += "{\"input_ids\": [1";
      const int length = 2 + static_cast<int>(random() % 250);
      for (int k = 1; k < length; ++k) text += ", " + std::to_string(2 + random() % 38);
      text += "], \"labels\": " + std::to_string(random() % 2) + "}\n";
    }
    test::write_file(folder_ / "rows.jsonl", text);
  }

  struct Run {
    std::vector<double> losses, norms;
    int64_t recipes;
  };
  Run train(const std::string& buckets) const {
    TrainArguments arguments = parse_train_arguments(
        {"--model_name_or_path", (folder_ / "model").string(), "--train_file", (folder_ / "rows.jsonl").string(),
         "--output_dir", (folder_ / "out").string(), "--num_train_epochs", "1", "--per_device_train_batch_size", "2",
         "--save_strategy", "no", "--learning_rate", "1e-3", "--length_buckets", buckets});
    Run run;
    FineTuneOptions options;
    options.on_step = [&](const StepReport& step) {
      run.losses.push_back(step.loss);
      run.norms.push_back(step.gradient_norm);
    };
    const int64_t before = test::recompilations();
    fine_tune(arguments, options);
    run.recipes = test::recompilations() - before;
    return run;
  }

  test::TemporaryFolder folder_;
  int lengths_ = 12;
};

TEST_F(HpuShapes, TrainingNeedsNoMoreRecipesThanBucketsAndGivesTheSameNumbers) {
  const Run padded = train("8"), plain = train("0");
  ASSERT_EQ(padded.losses.size(), plain.losses.size());
  double worst = 0, worst_norm = 0;
  for (size_t i = 0; i < plain.losses.size(); ++i) {
    worst = std::max(worst, std::abs(padded.losses[i] - plain.losses[i]) / std::abs(plain.losses[i]));
    worst_norm = std::max(worst_norm, std::abs(padded.norms[i] - plain.norms[i]) / plain.norms[i]);
  }
  std::printf("%zu updates: %lld recipes in buckets, %lld without; losses differ by %.2g, gradient norms by %.2g\n",
              plain.losses.size(), static_cast<long long>(padded.recipes), static_cast<long long>(plain.recipes), worst,
              worst_norm);
  EXPECT_LT(worst, 2e-5);
  EXPECT_LT(worst_norm, 2e-4);
  // A step is a recipe for each length, and at most one more where its first inputs lie elsewhere.
  EXPECT_LE(padded.recipes, 2 * 8);
  if (lengths_ > 20) {
    EXPECT_GT(plain.recipes, 2 * padded.recipes);
  }
}

}  // namespace
}  // namespace transom
