// SPDX-License-Identifier: Apache-2.0
// Labelled boxes with noise, which RT-DETR learns to find again.
#include "models/families/rt_detr/rt_detr_queries.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

RTDetrConfig config_with(const std::string& fields) {
  return {Config::parse(
              R"({"model_type": "rt_detr", "num_labels": 80, "num_queries": 3, "num_denoising": 5, )" + fields + "}",
              "config"),
          false};
}

// Two boxes of the first picture, one of the second.
BoxLabels two_pictures() {
  return {Tensor::from(std::vector<int64_t>{4, 2, 1, -100}, {2, 2}),
          Tensor::from(std::vector<float>{0.4f, 0.5f, 0.2f, 0.3f, 0.6f, 0.4f, 0.1f, 0.2f,  //
                                          0.5f, 0.5f, 0.4f, 0.4f, 0, 0, 0, 0},
                       {2, 2, 4})};
}

RTDetrNoisyQueries drawn(const RTDetrConfig& config, int64_t seed) {
  ForwardContext context{.training = true, .dropout_key = Tensor::from(std::vector<int64_t>{seed, 0}, {2})};
  return rt_detr_noisy_queries(two_pictures(), config, context);
}

// Without noise a query is its box, also where Transformers 5.24 would take the box for what its sigmoid is of.
TEST(NoisyQueries, AreTheirBoxesWithoutNoise) {
  const RTDetrNoisyQueries noisy = drawn(config_with(R"("label_noise_ratio": 0, "box_noise_scale": 0)"), 1);
  EXPECT_EQ(noisy.groups, 2);  // of 5 copies of two boxes
  EXPECT_EQ(noisy.classes.to_vector<int64_t>(),
            (std::vector<int64_t>{4, 2, 4, 2, 4, 2, 4, 2, 1, 80, 1, 80, 1, 80, 1, 80}));
  const std::vector<float> boxes = sigmoid(noisy.boxes).to_vector<float>(),
                           expected = two_pictures().boxes.to_vector<float>();
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(boxes[i], expected[i % 8], 1e-5f) << i;
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(boxes[32 + i], 0.5f - 0.1f * static_cast<float>(i / 2), 1e-5f) << i;
  // Each box is found by the near query of each group.
  EXPECT_EQ(noisy.matches.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 4, 5, 0, -1, 4, -1}));
}

// Groups see themselves, queries of places see no group.
TEST(NoisyQueries, AreHiddenFromOthers) {
  const RTDetrNoisyQueries noisy = drawn(config_with(R"("box_noise_scale": 0.5)"), 1);
  const std::vector<float> mask = noisy.mask.to_vector<float>();
  ASSERT_EQ(noisy.mask.shape(), (Shape{1, 1, 11, 11}));
  for (size_t row = 0; row < 11; ++row)
    for (size_t column = 0; column < 11; ++column) {
      const bool seen = column >= 8 || (row < 8 && row / 4 == column / 4);
      EXPECT_EQ(mask[11 * row + column] == 0, seen) << row << " " << column;
    }
}

// Corners of a near copy move by less than half the extents, those of a far one by half of them to all.
TEST(NoisyQueries, MoveAsFarAsTheirKindDoes) {
  const RTDetrConfig config = config_with(R"("label_noise_ratio": 1, "box_noise_scale": 0.4)");
  const std::vector<float> labels = two_pictures().boxes.to_vector<float>();
  int changed = 0, different = 0;
  std::vector<float> before;
  for (int64_t seed = 0; seed < 8; ++seed) {
    const RTDetrNoisyQueries noisy = drawn(config, seed);
    const std::vector<float> boxes = sigmoid(noisy.boxes).to_vector<float>();
    for (size_t query = 0; query < 8; ++query)
      for (size_t k = 0; k < 4; ++k) {  // a corner: left, top, right, bottom
        const auto corner = [&](const float* box) { return box[k % 2] + (k < 2 ? -0.5f : 0.5f) * box[2 + k % 2]; };
        const float* label = &labels[4 * (query % 2)];
        const float moved = std::abs(corner(&boxes[4 * query]) - corner(label)), half = 0.2f * label[2 + k % 2];
        const bool far = query % 4 >= 2;
        EXPECT_LE(moved, (far ? 2 : 1) * half + 1e-4f);
        if (far) EXPECT_GE(moved, half - 1e-4f);
      }
    const std::vector<int64_t> classes = noisy.classes.to_vector<int64_t>();
    for (size_t query = 0; query < 8; ++query) changed += classes[query] != (query % 2 == 0 ? 4 : 2);
    for (const int64_t id : classes) EXPECT_TRUE(id >= 0 && id <= 80);
    EXPECT_EQ(classes[9], 80) << "no box, no class";
    different += boxes != before;
    before = boxes;
  }
  EXPECT_GT(changed, 16) << "half of 64 classes are drawn anew";
  EXPECT_LT(changed, 48);
  EXPECT_EQ(different, 8);
}

TEST(RTDetrConfiguration, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& fields) { return test::message_of([&] { config_with(fields); }); };
  EXPECT_NE(refusal(R"("num_feature_levels": 1000000)").find("num_feature_levels"), std::string::npos);
  EXPECT_NE(refusal(R"("encode_proj_layers": [3])").find("expected numbers from 0 to 2, found 3"), std::string::npos);
  EXPECT_NE(refusal(R"("hidden_expansion": 1e30)").find("is no width"), std::string::npos);
  EXPECT_NE(refusal(R"("encoder_hidden_dim": 10, "encoder_attention_heads": 2)").find("expected a multiple of 4"),
            std::string::npos);
  EXPECT_NE(refusal(R"("decoder_in_channels": [256, 256, 128])").find("decoder_in_channels"), std::string::npos);
}

}  // namespace
}  // namespace transom
