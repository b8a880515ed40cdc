// SPDX-License-Identifier: Apache-2.0
// Which patches ViT-MAE hides.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/message.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string mae_config(const std::string& fields) {
  return R"({"model_type": "vit_mae", "architectures": ["ViTMAEForPreTraining"], "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8, "patch_size": 4,
    "decoder_hidden_size": 8, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
    "decoder_intermediate_size": 8)" +
         fields + "}";
}

Tensor mae_pictures() {
  std::vector<float> values(2 * 3 * 8 * 8);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 13) / 6 - 1;
  return Tensor::from(values, {2, 3, 8, 8});
}

TEST(ViTMAE, SeesThePatchesOfTheLeastNoise) {
  const auto model = Model::from_config(mae_config(R"(, "mask_ratio": 0.5)"));
  const Tensor noise = Tensor::from(std::vector<float>{0.4f, 0.1f, 0.3f, 0.2f, 0.1f, 0.2f, 0.3f, 0.4f}, {2, 4});
  const NamedTensors outputs = model->forward({{"pixel_values", mae_pictures()}, {"noise", noise}});
  EXPECT_EQ(outputs.at("mask").to_vector<float>(), (std::vector<float>{1, 0, 1, 0, 0, 0, 1, 1}));
  EXPECT_EQ(outputs.at("ids_restore").to_vector<int64_t>(), (std::vector<int64_t>{3, 0, 2, 1, 0, 1, 2, 3}));
  EXPECT_EQ(outputs.at("logits").shape(), (Shape{2, 4, 48}));
  EXPECT_TRUE(outputs.find("loss").defined());
}

TEST(ViTMAE, HidesTheSamePatchesInEachEvaluation) {
  const auto model = Model::from_config(mae_config(""));
  const auto mask = [&] { return model->forward({{"pixel_values", mae_pictures()}}).at("mask").to_vector<float>(); };
  const std::vector<float> first = mask();
  EXPECT_EQ(std::accumulate(first.begin(), first.end(), 0.0f), 6);  // three of four in each picture
  EXPECT_EQ(mask(), first);
}

// Places are sinusoids, the columns' first, behind zeros for the class.
TEST(ViTMAE, NewPlacesAreSinusoids) {
  const auto model = Model::from_config(mae_config(""));
  const auto& all = model->parameters();
  const auto at =
      std::find_if(all.begin(), all.end(), [](const auto& each) { return each->name == "decoder.decoder_pos_embed"; });
  ASSERT_NE(at, all.end());
  const std::vector<float> places = (*at)->value.to_vector<float>();
  EXPECT_EQ(places[0], 0.0f);
  EXPECT_NEAR(places[8 * 2 + 0], 0.84147098, 1e-6);  // the second column
  EXPECT_NEAR(places[8 * 2 + 4], 0.0, 1e-6);         // of the first row
  EXPECT_NEAR(places[8 * 3 + 4], 0.84147098, 1e-6);  // the second row
}

TEST(ViTMAE, RefusesWhatHasNoPatches) {
  const auto refusal = [](const std::string& fields) {
    return test::message_of([&] { Model::from_config(mae_config(fields)); });
  };
  EXPECT_NE(refusal(R"(, "mask_ratio": 1.5)").find("mask_ratio"), std::string::npos);
  EXPECT_NE(refusal(R"(, "mask_ratio": 0.9)").find("leaves some"), std::string::npos);
  const auto model = Model::from_config(mae_config(""));
  const std::string found = test::message_of([&] {
    model->forward({{"pixel_values", mae_pictures()}, {"noise", Tensor::from(std::vector<float>(6), {2, 3})}});
  });
  EXPECT_NE(found.find("noise: expected [2, 4]"), std::string::npos) << found;
}

}  // namespace
}  // namespace transom
