// SPDX-License-Identifier: Apache-2.0
// The loss of a student is that of its definition, and a run with a teacher follows PyTorch's curve.
#include "work/train/step/distillation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

// `scale` sin(phase + 1.7 i): numbers that another program can make again.
std::vector<float> waves(int64_t count, double phase, double scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * std::sin(phase + 1.7 * static_cast<double>(i)));
  return values;
}

// A small BERT. Its parameters, by their names in order, are waves from `phase`, `phase` + 1 ...
std::unique_ptr<Model> student_bert(const std::string& architecture, const std::string& fields, double phase = 0) {
  auto model = Model::from_config(R"({"model_type": "bert", "architectures": [")" + architecture +
                                  R"("], "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16, "hidden_dropout_prob": 0,
    "attention_probs_dropout_prob": 0)" +
                                  fields + "}");
  std::map<std::string, Parameter*> by_name;
  for (const auto& parameter : model->parameters()) by_name[parameter->name] = parameter.get();
  for (const auto& [name, parameter] : by_name) {
    parameter->value = Tensor::from(waves(parameter->value.size(), phase++, 0.5), parameter->value.shape());
    parameter->value.set_requires_grad();
  }
  return model;
}

const std::string kThree = R"(, "id2label": {"0": "a", "1": "b", "2": "c"})";

Tensor ids() { return Tensor::from(std::vector<int64_t>{2, 5, 6, 3, 2, 7, 8, 3}, {2, 4}); }

std::vector<double> row_of(const Tensor& logits, int64_t row) {
  const auto values = cast(logits, DType::kFloat32).to_vector<float>();
  const int64_t width = logits.dim(-1);
  return {values.begin() + row * width, values.begin() + (row + 1) * width};
}

std::vector<double> probabilities(std::vector<double> logits, double temperature) {
  double total = 0;
  for (double& x : logits) total += x = std::exp(x / temperature);
  for (double& x : logits) x /= total;
  return logits;
}

// T^2 KL of one row, by its definition.
double divergence(const std::vector<double>& student, const std::vector<double>& teacher, double temperature) {
  const auto p = probabilities(teacher, temperature), q = probabilities(student, temperature);
  double result = 0;
  for (size_t i = 0; i < p.size(); ++i) result += p[i] * std::log(p[i] / q[i]);
  return result * temperature * temperature;
}

Tensor numbers(const Shape& shape, double phase) { return Tensor::from(waves(elements(shape), phase, 2), shape); }

const Tensor kLoss = Tensor::from(std::vector<float>{3}, {});

TEST(Distillation, OfClassesIsTheDivergenceOfTheRows) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForSequenceClassification", kThree);
  const auto student = student_bert("BertForSequenceClassification", kThree, 0.5);
  const Tensor taught = teacher->forward({{"input_ids", ids()}}).at("logits"), learnt = numbers({2, 3}, 0);
  const Tensor labels = Tensor::from(std::vector<int64_t>{0, 2}, {2});
  const double expected =
      (divergence(row_of(learnt, 0), row_of(taught, 0), 3) + divergence(row_of(learnt, 1), row_of(taught, 1), 3)) / 2;
  const Distillation distillation(teacher, *student, 3, 0.25, {});
  const Tensor loss =
      distillation.loss(kLoss, {{"input_ids", ids()}, {"labels", labels}}, {{"logits", learnt}}, false, {});
  EXPECT_NEAR(loss.item<float>(), 0.75 * 3 + 0.25 * expected, 1e-5);
  EXPECT_GT(expected, 0.01);
}

TEST(Distillation, FindsTheClassesOfTheTeacherByName) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForSequenceClassification", kThree);
  const auto student = student_bert("BertForSequenceClassification", R"(, "id2label": {"0": "c", "1": "a", "2": "b"})");
  const auto taught = teacher->forward({{"input_ids", ids()}}).at("logits").to_vector<float>();
  const Tensor turned =
      Tensor::from(std::vector<float>{taught[2], taught[0], taught[1], taught[5], taught[3], taught[4]}, {2, 3});
  const Tensor labels = Tensor::from(std::vector<int64_t>{0, 2}, {2});
  const Distillation distillation(teacher, *student, 2, 1, {});
  const NamedTensors inputs{{"input_ids", ids()}, {"labels", labels}};
  EXPECT_NEAR(distillation.loss(kLoss, inputs, {{"logits", turned}}, false, {}).item<float>(), 0, 1e-6);
}

TEST(Distillation, OfTokensCountsThoseWithLabels) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForTokenClassification", kThree);
  const Tensor taught = teacher->forward({{"input_ids", ids()}}).at("logits"), learnt = numbers({2, 4, 3}, 1);
  const Tensor labels = Tensor::from(std::vector<int64_t>{-100, 0, 2, -100, -100, 1, -100, -100}, {2, 4});
  double expected = 0;
  for (const int64_t row : {1, 2, 5}) expected += divergence(row_of(learnt, row), row_of(taught, row), 2);
  const Distillation distillation(teacher, *teacher, 2, 1, {});
  const NamedTensors inputs{{"input_ids", ids()}, {"labels", labels}}, outputs{{"logits", learnt}};
  EXPECT_NEAR(distillation.loss(kLoss, inputs, outputs, false, {}).item<float>(), expected / 3, 1e-5);
  const ForwardContext of_twelve{.num_items_in_batch = Tensor::from(std::vector<float>{12}, {})};
  EXPECT_NEAR(distillation.loss(kLoss, inputs, outputs, false, of_twelve).item<float>(), expected / 12, 1e-5);
  // A label belongs to the logits before it.
  expected = 0;
  for (const int64_t row : {0, 1, 4}) expected += divergence(row_of(learnt, row), row_of(taught, row), 2);
  EXPECT_NEAR(distillation.loss(kLoss, inputs, outputs, true, {}).item<float>(), expected / 3, 1e-5);
}

TEST(Distillation, OfSpansIsTheMeanOfBothEnds) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForQuestionAnswering", "");
  const NamedTensors taught = teacher->forward({{"input_ids", ids()}});
  const Tensor starts = numbers({2, 4}, 2), ends = numbers({2, 4}, 3);
  double expected = 0;
  for (const int64_t row : {0, 1})
    expected += divergence(row_of(starts, row), row_of(taught.at("start_logits"), row), 2) +
                divergence(row_of(ends, row), row_of(taught.at("end_logits"), row), 2);
  const Distillation distillation(teacher, *teacher, 2, 1, {});
  const Tensor positions = Tensor::from(std::vector<int64_t>{1, 2}, {2});
  const Tensor loss =
      distillation.loss(kLoss, {{"input_ids", ids()}, {"start_positions", positions}, {"end_positions", positions}},
                        {{"start_logits", starts}, {"end_logits", ends}}, false, {});
  EXPECT_NEAR(loss.item<float>(), expected / 4, 1e-5);
}

TEST(Distillation, OfOneNumberIsTheSquaredError) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher =
      student_bert("BertForSequenceClassification", R"(, "id2label": {"0": "a"})");
  const auto taught = teacher->forward({{"input_ids", ids()}}).at("logits").to_vector<float>();
  const Tensor learnt = numbers({2, 1}, 0), labels = Tensor::from(std::vector<float>{1, 2}, {2});
  const auto values = learnt.to_vector<float>();
  const double expected = (std::pow(values[0] - taught[0], 2) + std::pow(values[1] - taught[1], 2)) / 2;
  const Distillation distillation(teacher, *teacher, 2, 1, {});
  const NamedTensors inputs{{"input_ids", ids()}, {"labels", labels}};
  EXPECT_NEAR(distillation.loss(kLoss, inputs, {{"logits", learnt}}, false, {}).item<float>(), expected, 1e-5);
}

TEST(Distillation, OfSeveralClassesAtOnceIsThatOfEach) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForSequenceClassification", kThree);
  const auto taught = teacher->forward({{"input_ids", ids()}}).at("logits").to_vector<float>();
  const Tensor learnt = numbers({2, 3}, 0), labels = Tensor::from(std::vector<float>{1, 0, 1, 0, 0, 1}, {2, 3});
  const auto values = learnt.to_vector<float>();
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) expected += divergence({values[i], 0}, {taught[i], 0}, 2) / 6;
  const Distillation distillation(teacher, *teacher, 2, 1, {});
  const NamedTensors inputs{{"input_ids", ids()}, {"labels", labels}};
  EXPECT_NEAR(distillation.loss(kLoss, inputs, {{"logits", learnt}}, false, {}).item<float>(), expected, 1e-5);
}

TEST(Distillation, RefusesAnotherTeacher) {
  set_device("cpu");
  const std::shared_ptr<const Model> two =
      student_bert("BertForSequenceClassification", R"(, "id2label": {"0": "a", "1": "b"})");
  const std::shared_ptr<const Model> three = student_bert("BertForSequenceClassification", kThree);
  const std::shared_ptr<const Model> others =
      student_bert("BertForSequenceClassification", R"(, "id2label": {"0": "a", "1": "b", "2": "d"})");
  const std::shared_ptr<const Model> spans = student_bert("BertForQuestionAnswering", "");
  EXPECT_EQ(test::message_of([&] { Distillation(two, *three, 2, 0.5, {}); }),
            "the teacher has 2 classes, the model that is trained has 3: expected the same");
  EXPECT_EQ(test::message_of([&] { Distillation(others, *three, 2, 0.5, {}); }),
            "the teacher has no class 'c' of the model that is trained; it has: a, b, d");
  const Distillation wrong_head(spans, *student_bert("BertForMaskedLM", ""), 2, 0.5, {});
  EXPECT_EQ(test::message_of([&] {
              wrong_head.loss(kLoss, {{"input_ids", ids()}, {"labels", ids()}}, {{"logits", numbers({2, 4, 20}, 0)}},
                              false, {});
            }),
            "the teacher, BertForQuestionAnswering, gives no logits, which the model that is trained learns from it");
}

// The losses of the updates of a student that learns from a teacher, in a mode.
std::vector<float> curve(Mode mode, bool in_parts) {
  set_device("cpu");
  const std::shared_ptr<const Model> teacher = student_bert("BertForSequenceClassification", kThree);
  const auto student = student_bert("BertForSequenceClassification", kThree, 0.5);
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(*student, arguments);
  step.objective().learn_from({teacher, *student, 2, 0.5, {}});
  const auto row = [](std::vector<int64_t> tokens, int64_t label) {
    const auto length = static_cast<int64_t>(tokens.size());
    return NamedTensors{{"input_ids", Tensor::from(tokens, {1, length})},
                        {"labels", Tensor::from(std::vector<int64_t>{label}, {1})}};
  };
  std::vector<NamedTensors> batches;
  if (in_parts) batches = {row({2, 5, 6, 3}, 0), row({2, 7, 8, 3}, 2)};
  else batches = {NamedTensors{{"input_ids", ids()}, {"labels", Tensor::from(std::vector<int64_t>{0, 2}, {2})}}};
  set_mode(mode);
  std::vector<float> losses;
  for (int64_t i = 0; i < 4; ++i) losses.push_back(step(batches, 1e-2, i).loss.item<float>());
  set_mode(Mode::kLazy);
  return losses;
}

TEST(Distillation, CurvesAreThoseOfPyTorchInEveryMode) {
  const std::vector<float> lazy = curve(Mode::kLazy, false);
  const std::vector<float> of_torch = {0.98068094f, 0.84069914f, 0.74097651f, 0.68361682f};
  ASSERT_EQ(lazy.size(), of_torch.size());
  for (size_t i = 0; i < lazy.size(); ++i) EXPECT_NEAR(lazy[i], of_torch[i], 2e-5) << i;
  EXPECT_EQ(curve(Mode::kEager, false), lazy);
  EXPECT_EQ(curve(Mode::kCompile, false), lazy);
  EXPECT_EQ(curve(Mode::kGraph, false), lazy);
  // In parts, each with a row, it is that of the whole batch.
  const std::vector<float> parts = curve(Mode::kLazy, true);
  for (size_t i = 0; i < lazy.size(); ++i) EXPECT_NEAR(parts[i], lazy[i], 2e-5) << i;
}

}  // namespace
}  // namespace transom
