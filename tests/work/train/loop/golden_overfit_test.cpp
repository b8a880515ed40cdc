// SPDX-License-Identifier: Apache-2.0
// Twenty steps on one batch, for every golden case whose architecture is known: losses, gradient norms, and what the
// weights and buffers are at the end, against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json/json.h"
#include "support/golden_cases.h"
#include "support/golden_training.h"
#include "transom/model.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

class GoldenOverfit : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOverfit, FollowsPyTorch) {
  const auto folder = test::folder_of_case(GetParam());
  const Json golden = read_json(folder / "train.json"), tolerance = read_json(folder / "case.json")["tolerance"];
  const TrainingArguments arguments = test::training_arguments(folder);
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string());
  std::vector<int64_t> counts;  // of batches that norms have seen
  for (const auto& buffer : model->buffers())
    counts.push_back(buffer->name.ends_with("num_batches_tracked") ? buffer->value.item<int64_t>() : 0);
  std::vector<double> losses, norms;
  overfit_one_batch(*model, arguments, load_inputs(folder / "inputs.safetensors"), [&](const StepReport& step) {
    losses.push_back(step.loss);
    norms.push_back(step.gradient_norm);
  });
  const double rtol = tolerance["train_losses"]["rtol"], atol = tolerance["train_losses"]["atol"];
  // Where PyTorch's own norms in f32 are further from those in f64, the case says so.
  const double norm_rtol = tolerance.contains("train_norms") ? tolerance["train_norms"]["rtol"].get<double>() : 5e-3;
  ASSERT_EQ(losses.size(), golden["losses"].size());
  for (size_t i = 0; i < losses.size(); ++i) {
    const double loss = golden["losses"][i], norm = golden["grad_norms_before_clipping"][i];
    EXPECT_NEAR(losses[i], loss, atol + rtol * std::abs(loss)) << "step " << i;
    EXPECT_NEAR(norms[i], norm, 1e-3 + norm_rtol * norm) << "step " << i;
  }
  if (!golden.contains("final_buffers")) return;
  const Json& buffers = golden["final_buffers"];
  const std::unique_ptr<Model> before = Model::from_pretrained((folder / "model").string());
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto& buffer = model->buffers()[i];
    if (buffer->name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(buffer->value.item<int64_t>(), counts[i] + arguments.max_steps) << buffer->name;
      continue;
    }
    const std::string wrapped = "timm_model." + buffer->name;  // timm's models stand inside another there
    const std::string& name = buffers.contains(wrapped) ? wrapped : buffer->name;
    if (!buffers.contains(name)) {  // PyTorch has it as a constant: the scale and offset of a frozen norm
      EXPECT_EQ(buffer->value.to_vector<double>(), before->buffers()[i]->value.to_vector<double>()) << name;
      continue;
    }
    double square = 0;
    for (const double x : buffer->value.to_vector<double>()) square += x * x;
    const double expected = buffers[name]["l2"];
    // A norm takes the mean out again: along such weights the gradient is noise, which AdamW makes steps of.
    EXPECT_NEAR(std::sqrt(square), expected, 5e-3 * (1 + expected)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenOverfit, testing::ValuesIn(test::golden_cases_with("train.json")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
