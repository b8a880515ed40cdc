// SPDX-License-Identifier: Apache-2.0
// What Swin V2 refuses, and the gradients of padded windows.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

Json small_swin(const Json& changes = Json::object()) {
  Json config = {{"model_type", "swinv2"}, {"architectures", {"Swinv2ForImageClassification"}},
                 {"image_size", 12},       {"patch_size", 2},
                 {"embed_dim", 4},         {"depths", {2, 1}},
                 {"num_heads", {1, 2}},    {"window_size", 4},
                 {"qkv_bias", false},      {"pretrained_window_sizes", {0, 0}}};
  config.merge_patch(changes);
  return config;
}

std::string refusal_of_swin(const Json& changes) {
  return test::message_of([&] { Model::from_config(dump_json(small_swin(changes))); });
}

TEST(SwinV2, RefusesWhatItDoesNotCarryOut) {
  EXPECT_NE(refusal_of_swin({{"use_absolute_embeddings", true}}).find("use_absolute_embeddings"), std::string::npos);
  EXPECT_NE(refusal_of_swin({{"pretrained_window_sizes", {1, 0}}}).find("expected 0, or numbers from 2"),
            std::string::npos);
  EXPECT_NE(refusal_of_swin({{"pretrained_window_sizes", {4}}}).find("one number for every stage"), std::string::npos);
  EXPECT_NE(refusal_of_swin({{"image_size", 2048}, {"window_size", 512}}).find("windows of up to 64"),
            std::string::npos);
  EXPECT_NE(refusal_of_swin({{"image_size", 2}}).find("too low for 2 stages"), std::string::npos);
}

// A grid of 6 is padded to 8: queries and keys of padded places are vectors of zeros, which have no direction.
TEST(SwinV2, PaddedPlacesLeaveGradientsNumbers) {
  const auto model = Model::from_config(dump_json(small_swin()));
  ForwardContext context;
  const Tensor loss = model
                          ->forward({{"pixel_values", full({1, 3, 12, 12}, 0.5)},
                                     {"labels", Tensor::from(std::vector<int64_t>{1}, {1})}},
                                    context)
                          .at("loss");
  std::vector<Tensor> values;
  for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
  for (const Tensor& gradient : gradients(loss, values))
    for (const float value : gradient.to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace transom
