// SPDX-License-Identifier: Apache-2.0
// The codes of hidden patches that BEiT learns to tell.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::unique_ptr<Model> small_beit() {
  return Model::from_config(dump_json(Json{{"model_type", "beit"},
                                           {"architectures", {"BeitForMaskedImageModeling"}},
                                           {"hidden_size", 8},
                                           {"num_hidden_layers", 1},
                                           {"num_attention_heads", 2},
                                           {"intermediate_size", 8},
                                           {"image_size", 8},
                                           {"patch_size", 4},
                                           {"vocab_size", 5},
                                           {"use_mask_token", true},
                                           {"use_relative_position_bias", true}}));
}

NamedTensors hidden_patches(std::vector<int64_t> labels) {
  const auto count = static_cast<int64_t>(labels.size());
  return {{"pixel_values", full({2, 3, 8, 8}, 0.5)},
          {"bool_masked_pos", Tensor::from(std::vector<int64_t>{0, 1, 0, 0, 1, 1, 0, 0}, {2, 4})},
          {"labels", Tensor::from(std::move(labels), {count})}};
}

TEST(Beit, LabelsAreOfHiddenPatches) {
  const auto model = small_beit();
  const NoGradient inference;
  const NamedTensors outputs = model->forward(hidden_patches({4, 0, 3}));
  const std::vector<float> logits = outputs.at("logits").to_vector<float>();
  double expected = 0;
  const size_t places[] = {1, 4, 5}, codes[] = {4, 0, 3};
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (size_t k = 0; k < 5; ++k) sum += std::exp(static_cast<double>(logits[5 * places[i] + k]));
    expected += (std::log(sum) - static_cast<double>(logits[5 * places[i] + codes[i]])) / 3;
  }
  EXPECT_NEAR(outputs.at("loss").item<float>(), expected, 1e-5);
  for (const auto& wrong : {std::vector<int64_t>{4, 0}, std::vector<int64_t>{4, 0, 3, 1}})
    EXPECT_TRUE(std::isnan(model->forward(hidden_patches(wrong)).at("loss").item<float>()));
}

TEST(Beit, LabelsNeedToBeToldOfWhichPatchesTheyAre) {
  NamedTensors inputs = hidden_patches({4, 0, 3}), without;
  for (const auto& [name, tensor] : inputs.items())
    if (name != "bool_masked_pos") without.set(name, tensor);
  EXPECT_NE(test::message_of([&] { small_beit()->forward(without); }).find("expected bool_masked_pos"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
