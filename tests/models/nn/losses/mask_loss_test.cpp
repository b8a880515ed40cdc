// SPDX-License-Identifier: Apache-2.0
// The loss of queries that tell masks, on maps small enough to be reckoned by hand.
#include "models/nn/losses/mask_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/message.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr MaskWeights kFewPoints{.points = 4, .candidates = 8, .unsure = 2};

// Two queries of two classes on a map of 2 x 2: the first sees the left half as class 1, the second the right half as
// class 0.
const std::vector<float> kSure = {-9, 9, -9, 9, -9, -9}, kHalves = {9, -9, 9, -9, -9, 9, -9, 9};

MaskLabels halves(std::vector<int64_t> classes, std::vector<float> masks) {
  const auto count = static_cast<int64_t>(classes.size());
  return {Tensor::from(classes, {1, count}), Tensor::from(masks, {1, count, 2, 2})};
}

// The centres of the four places.
Tensor centres(int64_t rows) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row)
    values.insert(values.end(), {0.25F, 0.25F, 0.75F, 0.25F, 0.25F, 0.75F, 0.75F, 0.75F});
  return Tensor::from(values, {rows, 4, 2});
}

TEST(MaskLoss, PointsLieBetweenThePlacesOfAMap) {
  const Tensor map = Tensor::from(std::vector<float>{1, 3, 5, 7}, {1, 2, 2});
  const Tensor points = Tensor::from(std::vector<float>{0.25F, 0.25F, 0.5F, 0.25F, 0.5F, 0.5F, 0, 0}, {1, 4, 2});
  // At the corner three of four neighbours lie beyond the edges, and are 0.
  EXPECT_EQ(at_points(map, points).to_vector<float>(), (std::vector<float>{1, 2, 4, 0.25F}));
}

TEST(MaskLoss, ObjectsAreMatchedWithTheQueriesThatSeeThem) {
  const Tensor logits = Tensor::from(kSure, {1, 2, 3}), masks = Tensor::from(kHalves, {1, 2, 2, 2});
  const MaskLabels labels = halves({0, 1, -100}, {0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1});
  EXPECT_EQ(matched_masks(logits, masks, labels, kFewPoints, centres(1), {}).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 0, -1}));
}

TEST(MaskLoss, IsSmallWhereEverythingIsSeenAndTellsWhereNot) {
  const Tensor logits = Tensor::from(kSure, {1, 2, 3}), masks = Tensor::from(kHalves, {1, 2, 2, 2});
  ForwardContext context;
  const auto loss = [&](const Tensor& found, const MaskLabels& labels) {
    MaskPoints points{centres(1),
                      concatenate({reshape(centres(2), {1, 2, 4, 2}), reshape(centres(2), {1, 2, 4, 2})}, 2),
                      slice(reshape(centres(2), {1, 2, 4, 2}), 2, 0, 2)};
    return mask_loss(logits, found, labels, kFewPoints, points, context);
  };
  const MaskLabels labels = halves({0, 1}, {0, 1, 0, 1, 1, 0, 1, 0});
  EXPECT_LT(loss(masks, labels).item<float>(), 0.02F);
  // A mask that is not sure anywhere: log 2 at each point, times the weight, over two objects, besides the overlap.
  const Tensor unsure = Tensor::from(std::vector<float>{0, 0, 0, 0, -9, 9, -9, 9}, {1, 2, 2, 2});
  const float both = loss(unsure, labels).item<float>();
  EXPECT_GT(both, 5 * std::log(2.0F) / 2);
  EXPECT_LT(both, 5 * std::log(2.0F) / 2 + 2);
  // The gradient makes what is seen of the left half more sure there and less sure elsewhere.
  const std::vector<float> slopes = gradients(loss(unsure, labels), {unsure})[0].to_vector<float>();
  EXPECT_LT(slopes[0], 0);
  EXPECT_GT(slopes[1], 0);
}

TEST(MaskLoss, PointsAreTheSameOutsideOfTrainingAndOthersInEachPass) {
  const MaskLabels labels = halves({0, 1}, std::vector<float>(8, 1));
  const auto drawn = [&](ForwardContext context) {
    return mask_points({}, 2, labels, kFewPoints, context).back().candidates.to_vector<float>();
  };
  EXPECT_EQ(drawn({}), drawn({}));
  ForwardContext first{.training = true}, second{.training = true};
  first.dropout_key = Tensor::from(std::vector<int64_t>{1, 0}, {2});
  second.dropout_key = Tensor::from(std::vector<int64_t>{1, 1 << 20}, {2});
  EXPECT_EQ(drawn(first), drawn(first));
  EXPECT_NE(drawn(first), drawn(second));
}

TEST(MaskLoss, RefusesWhatDoesNotFit) {
  const Tensor image = full({1, 3, 4, 4}, 0);
  const Tensor classes = Tensor::from(std::vector<int64_t>{0, 5}, {1, 2});
  EXPECT_EQ(test::message_of([&] {
              mask_labels({{"pixel_values", image}, {"class_labels", classes}}, 3);
            }),
            "expected class_labels and mask_labels, found one of them");
  const NamedTensors wrong{{"pixel_values", image}, {"class_labels", classes}, {"mask_labels", full({1, 3, 4, 4}, 0)}};
  EXPECT_EQ(test::message_of([&] { mask_labels(wrong, 3); }),
            "class_labels and mask_labels: expected [1, objects] and [1, objects, height, width], found [1, 2] and [1, "
            "3, 4, 4]");
  const NamedTensors unknown{
      {"pixel_values", image}, {"class_labels", classes}, {"mask_labels", full({1, 2, 4, 4}, 0)}};
  EXPECT_EQ(test::message_of([&] { mask_labels(unknown, 3); }),
            "class_labels: 5 is no class: expected numbers in [0, 3), or -100 for none");
  ForwardContext context;
  const NamedTensors part{{"matching_points", full({1, 1, 4, 2}, 0)}};
  EXPECT_EQ(test::message_of([&] {
              mask_points(part, 1, halves({0}, {1, 1, 1, 1}), kFewPoints, context);
            }),
            "expected matching_points, candidate_points and other_points, or none of them");
}

}  // namespace
}  // namespace transom
