// SPDX-License-Identifier: Apache-2.0
// Where tokens stand beside pictures, and what Qwen2-VL refuses.
#include "models/vision_language/picture_positions.h"

#include <gtest/gtest.h>

#include "models/generative.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/generation.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

using Numbers = std::vector<int64_t>;

TEST(PicturePositions, GoOnBehindTheLargerEdge) {
  // Two tokens, a picture of 1 x 3, one token, a picture of 2 x 1 right at the end.
  const TextPositions positions = picture_positions(8, {{{{.begin = 2, .count = 3}}, {.height = 1, .width = 3}},
                                                        {{{.begin = 6, .count = 2}}, {.height = 2, .width = 1}}});
  ASSERT_EQ(positions.prompt.size(), 3u);
  EXPECT_EQ(positions.prompt[0], (Numbers{0, 1, 2, 2, 2, 5, 6, 6}));
  EXPECT_EQ(positions.prompt[1], (Numbers{0, 1, 2, 2, 2, 5, 6, 7}));
  EXPECT_EQ(positions.prompt[2], (Numbers{0, 1, 2, 3, 4, 5, 6, 6}));
  EXPECT_EQ(positions.delta, 0);
  EXPECT_EQ(positions.at(1, 8), 8);
  // A square of 2 x 2 takes four places and two numbers.
  const TextPositions square = picture_positions(5, {{{{.begin = 0, .count = 4}}, {.height = 2, .width = 2}}});
  EXPECT_EQ(square.prompt[1], (Numbers{0, 0, 1, 1, 2}));
  EXPECT_EQ(square.delta, -2);
  EXPECT_EQ(square.at(0, 5), 3);
}

TEST(PicturePositions, AreInOrderWithoutPictures) {
  const TextPositions positions = picture_positions(3, {});
  for (const Numbers& axis : positions.prompt) EXPECT_EQ(axis, (Numbers{0, 1, 2}));
  EXPECT_EQ(positions.delta, 0);
}

TEST(PicturePositions, RefuseTokensAmongThePlacesOfAPicture) {
  EXPECT_NE(test::message_of([] {
              picture_positions(5, {{{{.begin = 0, .count = 2}, {.begin = 3, .count = 2}}, {.height = 2, .width = 2}}});
            }).find("side by side"),
            std::string::npos);
}

class QwenPictures : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> model = Model::from_pretrained((test::folder_of_case(GetParam()) / "model").string());
  NamedTensors inputs = load_inputs(test::folder_of_case(GetParam()) / "inputs.safetensors");
};

// Generation tells the same positions as the forward pass.
TEST_P(QwenPictures, StandWhereTheForwardPassHasThem) {
  const auto& writer = dynamic_cast<const GenerativeModel&>(*model);
  EXPECT_EQ(writer.position_axes(), 3);
  const Tensor ids = slice(inputs.at("input_ids"), 0, 0, 1), mask = slice(inputs.at("attention_mask"), 0, 0, 1);
  NamedTensors first{{"input_ids", ids},
                     {"attention_mask", mask},
                     {"pixel_values", slice(inputs.at("pixel_values"), 0, 0, 24)},
                     {"image_grid_thw", slice(inputs.at("image_grid_thw"), 0, 0, 1)}};
  const NoGradient inference;
  const std::vector<float> expected = model->forward(first).at("logits").to_vector<float>();
  const auto rows = writer.attached_inputs(first);
  ASSERT_EQ(rows.size(), 1u);
  const TextPositions positions = writer.positions_of(ModelInputs(ids.to_vector<int64_t>(), rows[0]));
  Numbers all;
  for (const Numbers& axis : positions.prompt) all.insert(all.end(), axis.begin(), axis.end());
  first.set("position_ids", Tensor::from(all, {3, 1, ids.dim(1)}));
  const std::vector<float> found = model->forward(first).at("logits").to_vector<float>();
  const Numbers counted = mask.to_vector<int64_t>();
  const size_t width = found.size() / counted.size();
  for (size_t i = 0; i < found.size(); ++i)
    if (counted[i / width] != 0) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST_P(QwenPictures, RefusesGridsThatDoNotFit) {
  const auto refused = [&](const char* name, const Tensor& tensor) {
    NamedTensors changed = inputs;
    changed.set(name, tensor);
    return test::message_of([&] { model->forward(changed); });
  };
  const auto grids = [](Numbers values) { return Tensor::from(values, {static_cast<int64_t>(values.size()) / 3, 3}); };
  EXPECT_EQ(refused("image_grid_thw", grids({1, 4, 6, 1, 6, 10, 1, 2, 2})),
            "image_grid_thw: 88 patches, and pixel_values has 92");
  for (const Numbers& wrong : {Numbers{2, 4, 6}, Numbers{1, 3, 6}, Numbers{1, 0, 2}, Numbers{1, -4, -6},
                               Numbers{1, int64_t{1} << 40, int64_t{1} << 40}})
    EXPECT_NE(refused("image_grid_thw", grids(wrong)).find("expected one frame, and multiples of 2"),
              std::string::npos);
  EXPECT_NE(refused("pixel_values", zeros({92, 95}, DType::kFloat32)).find("expected [patches, 96]"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Cases, QwenPictures, testing::Values("qwen2-vl", "qwen2-5-vl"),
                         [](const auto& of) { return of.param == "qwen2-vl" ? "Qwen2Vl" : "Qwen25Vl"; });

}  // namespace
}  // namespace transom
