// SPDX-License-Identifier: Apache-2.0
// Losses that a task gives: computed in one or in parts, with parameters of their own, measured.
#include "work/train/step/objective.h"

#include <gtest/gtest.h>

#include "models/nn/losses/losses.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/ops.h"
#include "work/train/step/distillation.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

std::unique_ptr<Model> small_bert() {
  return Model::from_config(R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 20,
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 16, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0})");
}

NamedTensors texts(std::vector<int64_t> ids) {
  const int64_t rows = static_cast<int64_t>(ids.size()) / 4;
  return {{"input_ids", Tensor::from(ids, {rows, 4})}};
}

// The mean square of a weight times what the model says of the first token.
class SquaredRows : public Objective {
 public:
  explicit SquaredRows(bool in_parts) : in_parts_(in_parts) {
    weight_->name = "loss.weight";
    weight_->value = Tensor::from(std::vector<float>(16, 0.5f), {16});
    weight_->value.set_requires_grad();
    measures_ = {.names = {"size"},
                 .sums =
                     [](const NamedTensors&, const NamedTensors& outputs) {
                       const Tensor& rows = outputs.at("rows");
                       return joined_sums({sum(rows)}, {constant(static_cast<double>(rows.dim(0)), DType::kFloat32)});
                     },
                 .values = [](const Tensor& sums) { return ratios_of(sums); }};
  }

  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override {
    const Tensor rows = squares(pass.model.forward(inputs, pass.context));
    if (outputs) *outputs = {{"rows", rows.detach()}};
    return mean_of_all(rows, pass.context);
  }
  // Row by row.
  std::optional<LossInParts> in_parts(const LossPass& pass, const NamedTensors& inputs) const override {
    if (!in_parts_) return std::nullopt;
    const Tensor ids = inputs.at("input_ids");
    const Tensor rows = constant(static_cast<double>(ids.dim(0)), DType::kFloat32);
    LossDivisors* whole = pass.context.loss_divisors;
    const Tensor divisor = whole ? whole->divisor(rows) : rows;
    LossInParts parts;
    {
      const NoGradient value;
      const Tensor all = squares(pass.model.forward(inputs, {}));
      parts.loss = sum(all) / divisor;
      parts.outputs = {{"rows", all}};
      eval({parts.loss, all});
    }
    for (int64_t i = 0; i < ids.dim(0); ++i)
      parts.parts.emplace_back([this, &model = pass.model, ids, i, divisor] {
        ForwardContext context{.training = true};
        return sum(squares(model.forward({{"input_ids", slice(ids, 0, i, i + 1)}}, context))) / divisor;
      });
    return parts;
  }
  const BatchMeasures* measures() const override { return &measures_; }
  std::vector<std::shared_ptr<Parameter>> parameters() const override { return {weight_}; }

 private:
  Tensor squares(const NamedTensors& outputs) const {
    const Tensor first = slice(outputs.at("last_hidden_state"), 1, 0, 1);
    const Tensor scaled = reshape(first, {first.dim(0), 16}) * weight_->value;
    return mean(scaled * scaled, {1});
  }

  bool in_parts_;
  std::shared_ptr<Parameter> weight_ = std::make_shared<Parameter>();
  BatchMeasures measures_;
};

struct Curve {
  std::vector<float> losses, norms, measured, weight;
};

Curve curve_of(bool in_parts, const std::vector<NamedTensors>& batches) {
  set_device("cpu");
  const auto model = small_bert();
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(*model, arguments);
  const auto objective = std::make_shared<SquaredRows>(in_parts);
  step.set_objective(objective);
  Curve curve;
  for (int64_t i = 0; i < 3; ++i) {
    const TrainStep::Result result = step(batches, 1e-2, i);
    curve.losses.push_back(result.loss.item<float>());
    curve.norms.push_back(result.gradient_norm.item<float>());
    const std::vector<float> measures = result.measures.to_vector<float>();
    curve.measured.push_back(measures[0] / measures[1]);
  }
  curve.weight = objective->parameters()[0]->value.to_vector<float>();
  return curve;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5f * std::abs(b[i]) + 1e-7f) << i;
}

TEST(Objective, InPartsOrWholeOrAccumulatedAreOneUpdate) {
  const std::vector<NamedTensors> whole = {texts({2, 5, 6, 3, 2, 7, 8, 3, 2, 9, 4, 3, 2, 1, 7, 3})};
  const std::vector<NamedTensors> cut = {texts({2, 5, 6, 3, 2, 7, 8, 3}), texts({2, 9, 4, 3, 2, 1, 7, 3})};
  const Curve one = curve_of(false, whole);
  for (const Curve& other : {curve_of(true, whole), curve_of(false, cut), curve_of(true, cut)}) {
    expect_near(other.losses, one.losses);
    expect_near(other.norms, one.norms);
    expect_near(other.measured, one.measured);
    expect_near(other.weight, one.weight);
  }
  EXPECT_LT(one.losses[2], one.losses[0]);
  EXPECT_NE(one.weight[0], 0.5f);                   // its own weight is trained
  EXPECT_FLOAT_EQ(one.measured[0], one.losses[0]);  // which is what it measures
}

TEST(Objective, WithoutATermForATeacherRefusesOne) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = small_bert();
  SquaredRows objective(false);
  const std::string message = test::message_of([&] { objective.learn_from({teacher, *teacher, 2, 0.5, {}}); });
  EXPECT_NE(message.find("--teacher_model"), std::string::npos) << message;
}

TEST(BatchMeasures, MeansLeaveOutBatchesWithoutAValue) {
  set_device("cpu");
  const auto values = [](float total, float count, bool skips) {
    return ratios_of(joined_sums({Tensor::scalar(total)}, {Tensor::scalar(count)}), skips);
  };
  MeasureMeans means;
  means.add(added_values({values(6, 2, true), values(0, 0, true)}).to_vector<float>());
  means.add(added_values({values(5, 1, true)}).to_vector<float>());
  EXPECT_EQ(means.means()[0], 4.0);
  means.clear();
  EXPECT_TRUE(means.means().empty());
  means.add(values(0, 0, true).to_vector<float>());
  EXPECT_FALSE(means.means()[0].has_value());
  means.add(values(0, 0, false).to_vector<float>());
  EXPECT_EQ(means.means()[0], 0.0);
}

}  // namespace
}  // namespace transom
