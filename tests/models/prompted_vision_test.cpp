// SPDX-License-Identifier: Apache-2.0
// Models that look in pictures for what texts, points and other pictures name.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/golden_cases.h"
#include "support/message.h"
#include "transom/error.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

struct PromptedModel {
  explicit PromptedModel(const std::string& name)
      : model(Model::from_pretrained((test::folder_of_case(name) / "model").string())),
        inputs(load_inputs(test::folder_of_case(name) / "inputs.safetensors")) {}
  NamedTensors with(const std::string& name, const Tensor& tensor) const {
    NamedTensors others = inputs;
    others.set(name, tensor);
    return others;
  }
  NamedTensors without(const std::string& left_out) const {
    NamedTensors others;
    for (const auto& [name, tensor] : inputs.items())
      if (name != left_out) others.set(name, tensor);
    return others;
  }
  std::vector<float> output(const NamedTensors& given, const char* name) const {
    const NoGradient inference;
    return model->forward(given).at(name).to_vector<float>();
  }
  std::string refusal(const NamedTensors& given) const {
    return test::message_of([&] { model->forward(given); });
  }

  std::unique_ptr<Model> model;
  NamedTensors inputs;
};

void expect_vision_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4f * (1 + std::abs(expected[i])));
}

// Texts of zeros fill up those of a picture: no patch is one, and the others stay as they are.
TEST(PromptedVision, TextsThatFillUpAreNowhere) {
  const PromptedModel owlvit("owlvit");
  const std::vector<float> all = owlvit.output(owlvit.inputs, "logits");
  Tensor ids = owlvit.inputs.at("input_ids");
  ids = concatenate({slice(ids, 0, 0, 3), full({1, ids.dim(1)}, 0, ids.dtype())}, 0);
  const std::vector<float> filled = owlvit.output(owlvit.with("input_ids", ids), "logits");
  ASSERT_EQ(all.size(), filled.size());
  for (size_t i = 0; i < all.size(); ++i) {  // [2, patches, 2]
    if (i >= all.size() / 2 && i % 2 == 1) EXPECT_EQ(filled[i], std::numeric_limits<float>::lowest());
    else EXPECT_NEAR(filled[i], all[i], 1e-4f);
  }
  NamedTensors three = owlvit.without("attention_mask");
  three.set("input_ids", slice(ids, 0, 0, 3));
  EXPECT_NE(owlvit.refusal(three).find("as many texts for each of 2"), std::string::npos);
}

TEST(PromptedVision, APictureIsSeenOnceForManyPrompts) {
  const PromptedModel sam("sam");
  const NoGradient inference;
  const NamedTensors whole = sam.model->forward(sam.inputs);
  NamedTensors seen = sam.without("pixel_values");
  seen.set("image_embeddings", whole.at("image_embeddings"));
  expect_vision_near(sam.output(seen, "pred_masks"), whole.at("pred_masks").to_vector<float>());
  seen.set("pixel_values", sam.inputs.at("pixel_values"));
  EXPECT_NE(sam.refusal(seen).find("found both"), std::string::npos);
}

// Without labels points are part of what is meant.
TEST(PromptedVision, PointsWithoutLabelsAreMeant) {
  const PromptedModel sam("sam");
  const Tensor& labels = sam.inputs.at("input_labels");
  const std::vector<float> ones =
      sam.output(sam.with("input_labels", full(labels.shape(), 1, labels.dtype())), "iou_scores");
  expect_vision_near(sam.output(sam.without("input_labels"), "iou_scores"), ones);
  EXPECT_GT(std::abs(ones[0] - sam.output(sam.inputs, "iou_scores")[0]), 1e-6f);
}

TEST(PromptedVision, PromptsOfOtherShapesAreRefused) {
  const PromptedModel sam("sam-boxes"), clipseg("clipseg");
  EXPECT_NE(sam.refusal(sam.with("input_boxes", zeros({1, 2, 4}))).find("a box for each mask"), std::string::npos);
  EXPECT_NE(sam.refusal(sam.with("input_boxes", zeros({1, 4}))).find("[pictures, boxes, 4]"), std::string::npos);
  EXPECT_NE(sam.refusal(sam.with("input_masks", zeros({1, 1, 8, 8}))).find("[pictures, 1, 16, 16]"), std::string::npos);
  EXPECT_NE(sam.refusal(sam.with("pixel_values", zeros({1, 3, 16, 12}))).find("16x16"), std::string::npos);
  EXPECT_NE(clipseg.refusal(clipseg.without("input_ids")).find("what is looked for"), std::string::npos);
  EXPECT_NE(clipseg.refusal(clipseg.with("pixel_values", zeros({2, 3, 24, 32}))).find("square"), std::string::npos);
}

}  // namespace
}  // namespace transom
