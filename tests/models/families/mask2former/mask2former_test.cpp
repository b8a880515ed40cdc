// SPDX-License-Identifier: Apache-2.0
// What Mask2Former refuses, and what of its configurations has no effect.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

Json small_config(const Json& changes = Json::object()) {
  Json config = {{"model_type", "mask2former"},
                 {"architectures", {"Mask2FormerForUniversalSegmentation"}},
                 {"backbone_config",
                  {{"model_type", "swin"},
                   {"embed_dim", 4},
                   {"depths", {1, 1, 1, 1}},
                   {"num_heads", {1, 1, 2, 2}},
                   {"window_size", 2},
                   {"out_features", {"stage1", "stage2", "stage3", "stage4"}}}},
                 {"feature_size", 32},
                 {"mask_feature_size", 4},
                 {"hidden_dim", 8},
                 {"encoder_layers", 1},
                 {"decoder_layers", 2},
                 {"encoder_feedforward_dim", 4},
                 {"dim_feedforward", 4},
                 {"num_attention_heads", 2},
                 {"num_queries", 3},
                 {"train_num_points", 8},
                 {"id2label", {{"0", "a"}, {"1", "b"}}}};
  config.merge_patch(changes);
  return config;
}

std::string refusal(const Json& changes) {
  return test::message_of([&] { Model::from_config(dump_json(small_config(changes))); });
}

TEST(Mask2Former, RefusesWhatItDoesNotCarryOut) {
  EXPECT_NE(refusal({{"use_auxiliary_loss", false}}).find("use_auxiliary_loss"), std::string::npos);
  EXPECT_NE(refusal({{"backbone_config", {{"model_type", "dinat"}}}}).find("dinat"), std::string::npos);
  EXPECT_NE(refusal({{"feature_size", 48}}).find("feature_size: expected a multiple of 32"), std::string::npos);
  EXPECT_NE(refusal({{"num_attention_heads", 3}}).find("num_attention_heads"), std::string::npos);
  EXPECT_NE(refusal({{"backbone_config", {{"out_features", {"stage3", "stage4"}}}}}).find("expected 3 maps or more"),
            std::string::npos);
  EXPECT_NE(refusal({{"oversample_ratio", 0.5}}).find("oversample_ratio"), std::string::npos);
  EXPECT_NE(refusal({{"importance_sample_ratio", 2}}).find("importance_sample_ratio"), std::string::npos);
}

// Pictures need not fill the strides; a picture without objects has the loss of classes alone.
TEST(Mask2Former, TakesPicturesOfAnyFormAndWithoutObjects) {
  const auto model = Model::from_config(dump_json(small_config()));
  NamedTensors inputs{{"pixel_values", full({2, 3, 37, 50}, 0.5)}};
  const NoGradient inference;
  const NamedTensors alone = model->forward(inputs);
  EXPECT_EQ(alone.at("class_queries_logits").shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(alone.at("masks_queries_logits").shape(), (Shape{2, 3, 10, 13}));
  inputs.set("class_labels", full({2, 2}, -100, DType::kInt64));
  inputs.set("mask_labels", full({2, 2, 37, 50}, 0));
  const float nothing = model->forward(inputs).at("loss").item<float>();
  inputs.set("class_labels", Tensor::from(std::vector<int64_t>{0, 1, 1, -100}, {2, 2}));
  const float something = model->forward(inputs).at("loss").item<float>();
  EXPECT_GT(nothing, 0);
  EXPECT_GT(something, nothing);
  EXPECT_EQ(model->forward(inputs).at("loss").item<float>(), something);
}

}  // namespace
}  // namespace transom
