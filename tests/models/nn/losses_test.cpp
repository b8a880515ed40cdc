// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/losses.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

Tensor scores_of(std::vector<float> values, Shape shape) { return Tensor::from(values, std::move(shape)); }
Tensor labels_of(std::vector<int64_t> values, Shape shape) { return Tensor::from(values, std::move(shape)); }

double softplus_of(double x) { return std::log1p(std::exp(x)); }

TEST(Losses, CrossEntropyIsTheMeanOverLabelsThatCount) {
  const Tensor logits = scores_of({0, 0, 1, 3, 5, 5}, {3, 2});
  const double expected = (std::log(2.0) + softplus_of(2)) / 2;  // the third row's label does not count
  EXPECT_NEAR(mean_cross_entropy(logits, labels_of({1, 0, -100}, {3})).item<double>(), expected, 1e-6);
}

TEST(Losses, CrossEntropyOfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(mean_cross_entropy(scores_of({0, 1}, {1, 2}), labels_of({-100}, {1})).item<double>()));
}

// As PyTorch does; what is trained on it would be no number.
TEST(Losses, CrossEntropyRefusesALabelThatIsNoClass) {
  for (const int64_t label : {-1, 2, 1000})
    EXPECT_EQ(test::message_of([&] {
                mean_cross_entropy(scores_of({0, 1, 2, 3}, {2, 2}), labels_of({1, label}, {2}));
              }),
              fmt::format("labels: row 1: {} is no class: expected numbers in [0, 2), or -100 for what is not counted",
                          label));
}

// Of labels that are computed nothing is known before, and a device cannot raise an error: 0 would pass for a row that
// is learnt.
TEST(Losses, CrossEntropyOfAComputedLabelThatIsNoClassIsNotANumber) {
  for (const int64_t label : {-1, 2, 1000}) {
    const Tensor labels = labels_of({label, 1}, {2});
    EXPECT_TRUE(std::isnan(mean_cross_entropy(scores_of({0, 1, 2, 3}, {2, 2}), minimum(labels, labels)).item<double>()))
        << label;
  }
}

TEST(Losses, CrossEntropyRefusesLabelsThatDoNotFit) {
  EXPECT_THROW(mean_cross_entropy(scores_of({0, 1}, {1, 2}), labels_of({0, 1}, {2})), Error);
}

TEST(Losses, TheKindOfProblemFollowsFromLabels) {
  const Tensor one = scores_of({1, 3}, {2, 1});
  EXPECT_NEAR(classification_loss(one, scores_of({0, 1}, {2}), "").item<double>(), (1.0 + 4.0) / 2, 1e-6);
  const Tensor two = scores_of({0, 2}, {1, 2});
  EXPECT_NEAR(classification_loss(two, labels_of({0}, {1}), "").item<double>(), softplus_of(2), 1e-6);
  EXPECT_NEAR(classification_loss(two, scores_of({1, 0}, {1, 2}), "").item<double>(),
              (std::log(2.0) + softplus_of(2)) / 2, 1e-6);
  EXPECT_NEAR(classification_loss(two, scores_of({1, 0}, {1, 2}), "regression").item<double>(), (1.0 + 4.0) / 2, 1e-6);
  EXPECT_THROW(classification_loss(two, labels_of({0}, {1}), "ranking"), Error);
}

TEST(Losses, BinaryCrossEntropyDoesNotOverflow) {
  const Tensor logits = scores_of({500, -500}, {1, 2});
  EXPECT_NEAR(binary_cross_entropy(logits, scores_of({1, 0}, {1, 2})).item<double>(), 0, 1e-6);
  EXPECT_NEAR(binary_cross_entropy(logits, scores_of({0, 0}, {1, 2})).item<double>(), 250, 1e-3);
}

TEST(Losses, BinaryCrossEntropyCountsWhatTheMaskHolds) {
  const Tensor logits = scores_of({0, 7}, {1, 2});
  EXPECT_NEAR(binary_cross_entropy(logits, scores_of({1, 0}, {1, 2}), labels_of({1, 0}, {1, 2})).item<double>(),
              std::log(2.0), 1e-6);
}

TEST(Losses, PositionsOutsideOfTheTextDoNotCount) {
  const Tensor logits = scores_of({0, 0, 0, 9}, {2, 2});
  const double row = std::log(2.0);
  EXPECT_NEAR(span_loss(logits, logits, labels_of({0, 2}, {2}), labels_of({1, 40}, {2})).item<double>(), row, 1e-6);
  EXPECT_NEAR(span_loss(logits, logits, labels_of({0, 2}, {2, 1}), labels_of({-3, 2}, {2})).item<double>(), row, 1e-6);
}

}  // namespace
}  // namespace transom
