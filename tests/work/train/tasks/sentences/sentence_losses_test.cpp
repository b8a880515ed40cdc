// SPDX-License-Identifier: Apache-2.0
// The losses of vectors and their gradients against those of sentence-transformers in float64.
#include "work/train/tasks/sentences/losses/sentence_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/files/files.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<Json> recorded_losses() {
  std::vector<Json> lines;
  std::istringstream text(read_file(test::golden_folder() / "sentences" / "vector-losses.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, "vector-losses.jsonl"));
  return lines;
}

std::vector<float> flat(const Json& value) {
  if (value.is_number()) return {value.get<float>()};
  std::vector<float> all;
  for (const Json& each : value)
    for (const float number : flat(each)) all.push_back(number);
  return all;
}

Shape shape_of(const Json& value) {
  Shape shape;
  for (const Json* each = &value; each->is_array(); each = &each->at(0))
    shape.push_back(static_cast<int64_t>(each->size()));
  return shape;
}

Tensor tensor_of(const Json& value) { return Tensor::from(flat(value), shape_of(value)); }

class VectorLosses : public testing::TestWithParam<size_t> {};

TEST_P(VectorLosses, HaveTheValueAndTheGradientOfTheLibrary) {
  const Json about = recorded_losses()[GetParam()];
  SCOPED_TRACE(about["loss"].get<std::string>() + " " + dump_json(about["kwargs"]));
  const SentenceLossRecord& record = sentence_loss_named(about["loss"]);
  LossOptions options(about["kwargs"], std::string(record.name));
  const std::unique_ptr<SentenceLoss> loss = record.make(options, shape_of(about["columns"][0])[1], 42);
  options.finish();
  const ForwardContext context{.training = true};
  VectorBatch batch{.columns = {}, .labels = {}, .context = context};
  std::vector<Tensor> with_respect_to;
  for (const Json& column : about["columns"]) {
    batch.columns.push_back(tensor_of(column).set_requires_grad());
    with_respect_to.push_back(batch.columns.back());
  }
  EXPECT_GE(batch.columns.size(), record.least_columns);
  EXPECT_LE(batch.columns.size(), record.most_columns);
  if (about.contains("labels")) {
    batch.labels = tensor_of(about["labels"]);
    if (record.labels == SentenceLabels::kClass) batch.labels = cast(batch.labels, DType::kInt64);
  }
  const std::vector<std::shared_ptr<Parameter>> own = loss->parameters();
  ASSERT_EQ(own.size(), about.value("parameters", Json::array()).size());
  for (size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(own[i]->value.shape(), shape_of(about["parameters"][i]));
    own[i]->value = tensor_of(about["parameters"][i]).set_requires_grad();
    with_respect_to.push_back(own[i]->value);
  }
  const Tensor value = (*loss)(batch);
  const std::vector<Tensor> slopes = gradients(value, with_respect_to);
  const double expected = about["value"];
  EXPECT_NEAR(value.item<float>(), expected, 1e-6 + 1e-5 * std::abs(expected));
  for (size_t i = 0; i < slopes.size(); ++i) {
    const std::vector<float> found = slopes[i].to_vector<float>(), right = flat(about["gradients"][i]);
    ASSERT_EQ(found.size(), right.size());
    float largest = 0;
    for (const float each : right) largest = std::max(largest, std::abs(each));
    for (size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], right[k], 2e-5 * largest + 1e-7) << "number " << k << " of gradient " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, VectorLosses, testing::Range(size_t{0}, recorded_losses().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           const std::string name = recorded_losses()[info.param]["loss"];
                           return name + "Number" + std::to_string(info.param + 1);
                         });

TEST(VectorLossesOfAll, AreRecorded) {
  std::vector<std::string> missing;
  const std::vector<Json> recorded = recorded_losses();
  for (const SentenceLossRecord* each : sentence_losses())
    if (!each->name.starts_with("Cached") && each->name != "EmbedDistillLoss" &&
        std::none_of(recorded.begin(), recorded.end(), [&](const Json& one) { return one["loss"] == each->name; }))
      missing.emplace_back(each->name);
  EXPECT_EQ(missing, std::vector<std::string>());
}

std::string refusal(const std::string& loss, const Json& kwargs) {
  return test::message_of([&] {
    LossOptions options(kwargs, loss);
    sentence_loss_named(loss).make(options, 6, 42);
    options.finish();
  });
}

TEST(LossOptions, AreRefusedByName) {
  EXPECT_NE(refusal("CoSENTLos", {}).find("CoSENTLoss"), std::string::npos);
  EXPECT_NE(refusal("CoSENTLoss", {{"scal", 3}}).find("scale"), std::string::npos);
  EXPECT_NE(refusal("MultipleNegativesRankingLoss", {{"scale", 0}}).find("above 0"), std::string::npos);
  EXPECT_NE(refusal("MultipleNegativesRankingLoss", {{"similarity_fct", "angle"}}).find("cos_sim or dot_score"),
            std::string::npos);
  EXPECT_NE(refusal("MultipleNegativesRankingLoss", {{"directions", {"doc_to_query"}}}).find("query_to_doc"),
            std::string::npos);
  EXPECT_NE(refusal("SoftmaxLoss", Json::object()).find("num_labels"), std::string::npos);
  EXPECT_NE(refusal("TripletLoss", {{"distance_metric", 3}}).find("EUCLIDEAN"), std::string::npos);
  EXPECT_EQ(refusal("TripletLoss", {{"distance_metric", "TripletDistanceMetric.COSINE"}}), "");
}

}  // namespace
}  // namespace transom
