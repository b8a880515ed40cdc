// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/sees_together.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kLength = 7;
const std::vector<int64_t> kGroups{0, 1, 1, 1, 0, 2, 2};

std::vector<float> bias_with(const SeesTogether& together, int64_t window, const Tensor& padding = {}) {
  const DecoderInputs in{.bias = padding, .batch = 1, .length = kLength};
  return bias_of(together, in, window, {}).to_vector<float>();
}

TEST(SeesTogether, NumbersTheRunsOfEachRow) {
  const Tensor is_one = Tensor::from(std::vector<int64_t>{0, 1, 1, 0, 1, 1, 0, 0, 0, 1}, {2, 5});
  EXPECT_EQ(numbered_runs(is_one).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 0, 2, 1, 0, 0, 0, 2}));
}

TEST(SeesTogether, ShowsWhatStandsBehindInTheOwnGroupAlone) {
  const Tensor groups = Tensor::from(kGroups, {1, kLength});
  for (const int64_t window : {0, 2})
    for (const bool within : {false, true}) {
      const std::vector<float> found = bias_with({groups, within}, window);
      for (int64_t q = 0; q < kLength; ++q)
        for (int64_t k = 0; k < kLength; ++k) {
          const int64_t own = kGroups[static_cast<size_t>(q)];
          const bool same = own > 0 && own == kGroups[static_cast<size_t>(k)], near = window == 0 || k > q - window;
          const bool visible = within ? near && (k <= q || same) : (near && k <= q) || same;
          EXPECT_EQ(found[static_cast<size_t>(q * kLength + k)] == 0, visible) << q << " " << k << " " << window;
        }
    }
}

TEST(SeesTogether, NeverShowsPadding) {
  const Tensor groups = Tensor::from(kGroups, {1, kLength});
  const Tensor mask = Tensor::from(std::vector<int64_t>{0, 0, 1, 1, 1, 1, 1}, {1, kLength});
  const std::vector<float> found = bias_with({groups, false}, 0, additive_mask(mask));
  for (int64_t q = 0; q < kLength; ++q) EXPECT_LT(found[static_cast<size_t>(q * kLength + 1)], -1e30) << q;
  EXPECT_EQ(found[2 * kLength + 3], 0);
}

TEST(SeesTogether, TakesANumberForEachToken) {
  const Tensor fewer = Tensor::from(std::vector<int64_t>{1, 1}, {1, 2});
  EXPECT_EQ(test::message_of([&] { bias_with({fewer, false}, 0); }), "token_type_ids: expected [1, 7], found [1, 2]");
}

}  // namespace
}  // namespace transom
