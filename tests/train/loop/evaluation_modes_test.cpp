// SPDX-License-Identifier: Apache-2.0
// The loss of a batch is its own in every mode: batches of one shape may have other numbers of labels.
#include <gtest/gtest.h>

#include "train/loop/train_step.h"
#include "transom/device.h"

namespace transom {
namespace {

TEST(EvaluationModes, GiveTheLossOfEachBatch) {
  set_device("cpu");
  const auto model =
      Model::from_config(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 11,
    "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2})");
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(*model, arguments);
  const auto losses = [&](Mode mode) {
    set_mode(mode);
    const NoGradient no_gradient;
    std::vector<float> result;
    for (const size_t unlabelled : {0, 5, 2}) {
      std::vector<int64_t> ids{1, 2, 3, 4, 5, 6, 7, 8}, labels = ids;
      for (size_t i = 0; i < unlabelled; ++i) labels[i] = -100;
      result.push_back(
          step.evaluation_loss({{"input_ids", Tensor::from(ids, {1, 8})}, {"labels", Tensor::from(labels, {1, 8})}},
                               nullptr)
              .item<float>());
    }
    set_mode(Mode::kLazy);
    return result;
  };
  const std::vector<float> expected = losses(Mode::kLazy);
  EXPECT_EQ(losses(Mode::kCompile), expected);
  EXPECT_EQ(losses(Mode::kGraph), expected);
}

}  // namespace
}  // namespace transom
