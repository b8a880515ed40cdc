// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/labelled_positions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/nn/losses/losses.h"
#include "transom/error.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr int64_t kBatch = 3, kLength = 7, kWidth = 4, kWords = 9;

Tensor waves(Shape shape, double step) {
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return Tensor::from(values, shape);
}

// Two labels, none, and one, in three sequences.
Tensor few_labels() {
  std::vector<int64_t> labels(kBatch * kLength, -100);
  labels[2] = 5, labels[6] = 0, labels[2 * kLength + 3] = 8;
  return Tensor::from(labels, {kBatch, kLength});
}

struct Found {
  double loss;
  std::vector<std::vector<float>> gradients;
};
Found trained(const Tensor& labels, int64_t most) {
  const Tensor hidden = waves({kBatch, kLength, kWidth}, 0.7), words = waves({kWidth, kWords}, 1.3);
  const LabelledRows rows = labelled_rows(hidden, labels, most);
  const Tensor loss = mean_cross_entropy(matmul(rows.hidden, words), rows.labels);
  const std::vector<Tensor> taken = gradients(loss, {hidden, words});
  Found found{loss.item<double>(), {}};
  for (const Tensor& gradient : taken) found.gradients.push_back(gradient.to_vector<float>());
  return found;
}

TEST(LabelledPositions, LossAndGradientsAreThoseOfAllPositions) {
  const Found whole = trained(few_labels(), 0);
  for (const int64_t most : {2, 3, 6}) {
    const Found few = trained(few_labels(), most);
    EXPECT_NEAR(few.loss, whole.loss, 1e-6) << most;
    ASSERT_EQ(few.gradients.size(), whole.gradients.size());
    for (size_t k = 0; k < few.gradients.size(); ++k)
      for (size_t i = 0; i < few.gradients[k].size(); ++i)
        EXPECT_NEAR(few.gradients[k][i], whole.gradients[k][i], 1e-6) << most << " " << k << " " << i;
  }
}

TEST(LabelledPositions, AreTheLabelledOnesInOrder) {
  const LabelledRows rows = labelled_rows(waves({kBatch, kLength, kWidth}, 0.7), few_labels(), 3);
  EXPECT_EQ(rows.labels.to_vector<int64_t>(), (std::vector<int64_t>{5, 0, -100, -100, -100, -100, 8, -100, -100}));
  const auto all = waves({kBatch, kLength, kWidth}, 0.7).to_vector<float>(), taken = rows.hidden.to_vector<float>();
  EXPECT_EQ(taken[0], all[2 * kWidth]);
  EXPECT_EQ(taken[kWidth], all[6 * kWidth]);
  EXPECT_EQ(taken[6 * kWidth], all[(2 * kLength + 3) * kWidth]);
}

// A loss over some of the labels would pass for one over all.
TEST(LabelledPositions, MoreLabelsThanRoomGiveNoNumber) { EXPECT_TRUE(std::isnan(trained(few_labels(), 1).loss)); }

TEST(LabelledPositions, EnoughRoomChangesNothing) {
  const Tensor hidden = waves({kBatch, kLength, kWidth}, 0.7);
  EXPECT_EQ(labelled_rows(hidden, few_labels(), kLength).hidden.shape(), hidden.shape());
  EXPECT_EQ(labelled_rows(hidden, few_labels(), 0).labels.shape(), (Shape{kBatch, kLength}));
}

TEST(LabelledPositions, LabelsThatDoNotFitAreRefused) {
  EXPECT_THROW(labelled_rows(waves({kBatch, kLength + 1, kWidth}, 1), few_labels(), 2), Error);
  EXPECT_THROW(labelled_rows(waves({kBatch * kLength, kWidth}, 1), few_labels(), 2), Error);
}

}  // namespace
}  // namespace transom
