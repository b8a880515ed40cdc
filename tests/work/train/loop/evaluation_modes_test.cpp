// SPDX-License-Identifier: Apache-2.0
// The loss of a batch is its own in every mode: batches of one shape may have other numbers of labels.
#include <gtest/gtest.h>

#include "runtime/tensor/evaluate.h"
#include "transom/device.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr const char* kGpt2Model = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 11,
    "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2})";

TEST(EvaluationModes, GiveTheLossOfEachBatch) {
  set_device("cpu");
  const auto model = Model::from_config(kGpt2Model);
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

// A compiled pass is bound to the weights; it goes before they change, so that the step updates them in place.
TEST(EvaluationModes, DoNotKeepTheWeightsOfAStepThatFollows) {
  set_device("cpu");
  const auto model = Model::from_config(kGpt2Model);
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(*model, arguments);
  const std::vector<int64_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
  const NamedTensors rows{{"input_ids", Tensor::from(ids, {1, 8})}, {"labels", Tensor::from(ids, {1, 8})}};
  step({rows}, 1e-2, 0);
  for (const Mode evaluated : {Mode::kCompile, Mode::kGraph}) {
    {
      set_mode(evaluated);
      const NoGradient no_gradient;
      step.evaluation_loss(rows, nullptr).item<float>();
      set_mode(Mode::kLazy);
    }
    std::vector<const Buffer*> before, after;
    for (const auto& parameter : model->parameters()) before.push_back(buffer_of(parameter->value).get());
    step({rows}, 1e-2, 1);
    for (const auto& parameter : model->parameters()) after.push_back(buffer_of(parameter->value).get());
    EXPECT_EQ(after, before);
  }
}

}  // namespace
}  // namespace transom
