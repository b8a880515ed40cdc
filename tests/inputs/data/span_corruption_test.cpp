// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/span_corruption.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace transom {
namespace {

// What numpy and the functions of run_t5_mlm_flax give for np.random.seed(7).
TEST(SpanCorruption, DrawsTheSpansOfTheScript) {
  Mt19937 generator(7);
  const std::vector<bool> first = noise_spans(60, {}, generator), second = noise_spans(60, {}, generator);
  std::string shown;
  for (const bool noise : first) shown += noise ? '1' : '0';
  shown += ' ';
  for (const bool noise : second) shown += noise ? '1' : '0';
  EXPECT_EQ(shown,
            "000000000000000000111000000000000000000000111000000000000111 "
            "001110111110000000000000000000000000000000000000000000000001");
}

TEST(SpanCorruption, LengthsAreThoseOfTheScript) {
  const auto lengths = [](int64_t inputs, double density, double span) {
    const SpanLengths found = span_lengths(inputs, {.noise_density = density, .mean_span_length = span});
    return std::pair(found.tokens, found.labels);
  };
  EXPECT_EQ(lengths(512, 0.15, 3), (std::pair<int64_t, int64_t>(568, 114)));
  EXPECT_EQ(lengths(128, 0.15, 3), (std::pair<int64_t, int64_t>(141, 29)));
  EXPECT_EQ(lengths(64, 0.5, 3), (std::pair<int64_t, int64_t>(94, 64)));
  EXPECT_EQ(lengths(20, 0.3, 2), (std::pair<int64_t, int64_t>(22, 12)));
}

TEST(SpanCorruption, WhatIsLeftAndWhatIsCutOutMakeTheText) {
  const SpanCorruption options{.first_sentinel = 999, .eos_token_id = 1};
  const SpanLengths lengths = span_lengths(64, options);
  PaddedRows ids{3, lengths.tokens, std::vector<int64_t>(static_cast<size_t>(3 * lengths.tokens))};
  std::iota(ids.values.begin(), ids.values.end(), 2);
  const PaddedRows text = ids;
  Mt19937 generator(3);
  const PaddedRows labels = corrupt_spans(ids, options, generator);
  ASSERT_EQ(ids.length, 64);
  ASSERT_EQ(labels.length, lengths.labels);
  ASSERT_EQ(ids.values.size(), 3u * 64);
  ASSERT_EQ(labels.values.size(), static_cast<size_t>(3 * lengths.labels));
  for (int64_t row = 0; row < 3; ++row) {
    // A sentinel in one stands for the words behind the same sentinel in the other.
    std::vector<int64_t> whole;
    const auto* in = ids.values.data() + row * 64;
    const auto* out = labels.values.data() + row * lengths.labels;
    EXPECT_EQ(in[63], 1);
    EXPECT_EQ(out[lengths.labels - 1], 1);
    EXPECT_LT(in[0], 999 - 63) << "a text begins with what is kept";
    for (int64_t i = 0; i < 63; ++i) {
      if (in[i] <= 999 - 63 || in[i] > 999) {
        whole.push_back(in[i]);
        continue;
      }
      const auto* span = std::find(out, out + lengths.labels, in[i]);
      ASSERT_NE(span, out + lengths.labels);
      for (++span; *span != 1 && (*span <= 999 - 63 || *span > 999); ++span) whole.push_back(*span);
    }
    EXPECT_EQ(whole, std::vector<int64_t>(text.values.begin() + row * lengths.tokens,
                                          text.values.begin() + (row + 1) * lengths.tokens));
  }
}

}  // namespace
}  // namespace transom
