// SPDX-License-Identifier: Apache-2.0
// LayoutLM and LayoutLMv3 beside their golden cases: boxes and pictures that are wrong or not there.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

std::unique_ptr<Model> page_model(const char* name) {
  return Model::from_pretrained((test::folder_of_case(name) / "model").string());
}
NamedTensors page_inputs(const char* name) {
  return load_inputs((test::folder_of_case(name) / "inputs.safetensors").string());
}
std::vector<float> starts_of(const Model& model, const NamedTensors& inputs) {
  return model.forward(inputs).at("start_logits").to_vector<float>();
}

TEST(LayoutLM, WithoutBoxesAllWordsStandAtNought) {
  const NoGradient inference;
  for (const char* name : {"layoutlm-question-answering", "layoutlmv3-question-answering"}) {
    const auto model = page_model(name);
    NamedTensors given = page_inputs(name), none, nought = given;
    for (const auto& [key, tensor] : given.items())
      if (key != "bbox") none.set(key, tensor);
    nought.set("bbox", zeros(given.at("bbox").shape(), DType::kInt64));
    EXPECT_EQ(starts_of(*model, none), starts_of(*model, nought)) << name;
    EXPECT_NE(starts_of(*model, none), starts_of(*model, given)) << name;
  }
}

TEST(LayoutLM, RefusesBoxesThatDoNotFit) {
  const NoGradient inference;
  const auto model = page_model("layoutlm-question-answering");
  NamedTensors inputs = page_inputs("layoutlm-question-answering");
  const Shape shape = inputs.at("bbox").shape();
  const auto told = [&](const Tensor& boxes) {
    inputs.set("bbox", boxes);
    return test::message_of([&] { starts_of(*model, inputs); });
  };
  EXPECT_NE(told(zeros({shape[0], shape[1], 2}, DType::kInt64)).find("bbox: expected whole numbers"),
            std::string::npos);
  EXPECT_NE(told(zeros(shape)).find("bbox: expected whole numbers"), std::string::npos);
  EXPECT_NE(told(full(shape, 1001, DType::kInt64)).find("found 1001"), std::string::npos);
  EXPECT_NE(told(full(shape, -1, DType::kInt64)).find("found -1"), std::string::npos);
  const Tensor turned = concatenate(
      {full({shape[0], shape[1], 2}, 7, DType::kInt64), full({shape[0], shape[1], 2}, 3, DType::kInt64)}, 2);
  EXPECT_NE(told(turned).find("found -4"), std::string::npos);
}

TEST(LayoutLMv3, RefusesPicturesThatDoNotFit) {
  const NoGradient inference;
  const auto model = page_model("layoutlmv3-question-answering");
  NamedTensors inputs = page_inputs("layoutlmv3-question-answering");
  inputs.set("pixel_values", zeros({3, 3, 24, 16}));
  EXPECT_NE(test::message_of([&] { starts_of(*model, inputs); }).find("expected pictures of 16x16, found 24x16"),
            std::string::npos);
  inputs.set("pixel_values", zeros({1, 3, 16, 16}));
  EXPECT_NE(test::message_of([&] { starts_of(*model, inputs); }).find("expected 3 pictures"), std::string::npos);
}

TEST(LayoutLMv3, SeesThePicture) {
  const NoGradient inference;
  const auto model = page_model("layoutlmv3-token-classification");
  NamedTensors inputs = page_inputs("layoutlmv3-token-classification");
  const std::vector<float> seen = model->forward(inputs).at("logits").to_vector<float>();
  inputs.set("pixel_values", zeros(inputs.at("pixel_values").shape()));
  EXPECT_NE(seen, model->forward(inputs).at("logits").to_vector<float>());
}

TEST(LayoutLMv3, RefusesConfigurationsThatDoNotFit) {
  const Json good = read_json(test::folder_of_case("layoutlmv3-model") / "model" / "config.json");
  const auto told = [&](const char* field, const Json& value) {
    Json json = good;
    json[field] = value;
    return test::message_of([&] { Model::from_config(dump_json(json)); });
  };
  EXPECT_EQ(told("classifier_dropout", 0.0), "");
  EXPECT_NE(told("coordinate_size", 3).find("4 coordinate_size + 2 shape_size"), std::string::npos);
  EXPECT_NE(told("rel_pos_bins", 2).find("rel_pos_bins: expected 4 or more"), std::string::npos);
  EXPECT_NE(told("max_rel_pos", 2).find("max_rel_pos: expected more than 2"), std::string::npos);
  EXPECT_NE(told("max_rel_2d_pos", int64_t{1} << 40).find("max_rel_2d_pos"), std::string::npos);
  EXPECT_NE(told("input_size", -16).find("input_size"), std::string::npos);
  EXPECT_NE(told("text_embed", false).find("text_embed"), std::string::npos);
}

}  // namespace
}  // namespace transom
