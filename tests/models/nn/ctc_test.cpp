// SPDX-License-Identifier: Apache-2.0
// The CTC loss against the sum over all alignments, counted one by one.
#include "models/nn/losses/ctc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kClasses = 3;

// A made-up logit of each frame and class.
double logit(int64_t row, int64_t t, int64_t c) {
  return std::sin(1.0 + 2.7 * static_cast<double>(t) + 1.3 * static_cast<double>(c) + 0.9 * static_cast<double>(row));
}

Tensor logits(int64_t rows, int64_t frames) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t t = 0; t < frames; ++t)
      for (int64_t c = 0; c < kClasses; ++c) values.push_back(static_cast<float>(logit(row, t, c)));
  return Tensor::from(values, {rows, frames, kClasses});
}

// What a path says: repetitions joined, blanks (0) left out.
std::vector<int64_t> said(const std::vector<int64_t>& path) {
  std::vector<int64_t> labels;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

// -log of the probability of all paths of so many frames that say the labels.
double loss_of(int64_t row, int64_t frames, const std::vector<int64_t>& labels) {
  double total = 0;
  const auto paths = static_cast<int64_t>(std::pow(kClasses, frames) + 0.5);
  for (int64_t code = 0; code < paths; ++code) {
    std::vector<int64_t> path;
    double probability = 1;
    for (int64_t t = 0, rest = code; t < frames; ++t, rest /= kClasses) {
      path.push_back(rest % kClasses);
      double sum = 0;
      for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(logit(row, t, c));
      probability *= std::exp(logit(row, t, path.back())) / sum;
    }
    if (said(path) == labels) total += probability;
  }
  return -std::log(total);
}

Tensor ids(std::vector<int64_t> values, Shape shape) { return Tensor::from(values, std::move(shape)); }

TEST(Ctc, IsTheSumOverAllAlignments) {
  const std::vector<std::vector<int64_t>> labels = {{1, 2, 1}, {2, 2}, {1}, {}};
  const Tensor padded = ids({1, 2, 1, 2, 2, -100, 1, -100, -100, -100, -100, -100}, {4, 3});
  const std::vector<int64_t> frames = {5, 4, 2, 3};
  double expected = 0, expected_mean = 0;
  for (size_t row = 0; row < 4; ++row) {
    const double loss = loss_of(static_cast<int64_t>(row), frames[row], labels[row]);
    expected += loss;
    expected_mean += loss / std::max<double>(1, static_cast<double>(labels[row].size())) / 4;
  }
  EXPECT_NEAR(ctc_loss_of_logits(logits(4, 5), padded, ids(frames, {4}), {}).item<double>(), expected, 1e-5);
  EXPECT_NEAR(ctc_loss_of_logits(logits(4, 5), padded, ids(frames, {4}), {.reduction = "mean"}).item<double>(),
              expected_mean, 1e-5);
}

// Padding may stand anywhere, and may be the blank.
TEST(Ctc, PaddingIsLeftOut) {
  const Tensor frames = ids({4}, {1});
  const double expected = loss_of(0, 4, {2, 1});
  EXPECT_NEAR(ctc_loss_of_logits(logits(1, 4), ids({0, 2, -100, 1}, {1, 4}), frames, {}).item<double>(), expected,
              1e-5);
}

TEST(Ctc, LabelsThatDoNotFitAreInfiniteOrLeftOut) {
  const Tensor labels = ids({1, 1, 1, 2}, {2, 2}), frames = ids({2, 2}, {2});  // "11" needs a blank between
  EXPECT_EQ(ctc_loss_of_logits(logits(2, 4), labels, frames, {}).item<double>(),
            std::numeric_limits<double>::infinity());
  Tensor x = logits(2, 4);
  x.set_requires_grad();
  const Tensor loss = ctc_loss_of_logits(x, labels, frames, {.zero_infinity = true});
  EXPECT_NEAR(loss.item<double>(), loss_of(1, 2, {1, 2}), 1e-5);
  const auto gradient = gradients(loss, {x})[0].to_vector<double>();
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_TRUE(std::isfinite(gradient[i]));
    if (i < gradient.size() / 2) {
      EXPECT_EQ(gradient[i], 0) << i;
    }
  }
}

TEST(Ctc, TheGradientIsThatOfTheSum) {
  Tensor x = logits(1, 4);
  x.set_requires_grad();
  const Tensor labels = ids({2, 1}, {1, 2}), frames = ids({3}, {1});
  const auto gradient = gradients(ctc_loss_of_logits(x, labels, frames, {}), {x})[0].to_vector<double>();
  const auto values = x.to_vector<float>();
  const auto at = [&](size_t i, float step) {
    std::vector<float> moved = values;
    moved[i] += step;
    return ctc_loss_of_logits(Tensor::from(moved, {1, 4, kClasses}), labels, frames, {}).item<double>();
  };
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(gradient[i], (at(i, 0.01f) - at(i, -0.01f)) / 0.02, 1e-3) << i;
  for (size_t i = 9; i < 12; ++i) EXPECT_EQ(gradient[i], 0);  // behind the last frame that counts
}

TEST(Ctc, RefusesAnUnknownReduction) {
  EXPECT_THROW(ctc_loss_of_logits(logits(1, 2), ids({1}, {1, 1}), ids({2}, {1}), {.reduction = "median"}), Error);
}

}  // namespace
}  // namespace transom
