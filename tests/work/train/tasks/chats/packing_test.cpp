// SPDX-License-Identifier: Apache-2.0
// Which samples share a row, against trl.pack_dataset, and what a packed row is.
#include "work/train/tasks/chats/packing.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"

namespace transom {
namespace {

// The file names of wrapped rows their first token alone.
TEST(Packing, PutsSamplesTogetherAsTrlDoes) {
  const Json cases = read_json(test::golden_folder() / "sft" / "packings.json");
  ASSERT_GE(cases.size(), 5u);
  for (const Json& each : cases) {
    const auto lengths = each["lengths"].get<std::vector<int64_t>>();
    const std::string strategy = each["strategy"];
    const int64_t length = each["length"];
    const std::vector<PackedRow> rows = pack_samples(lengths, length, packing_strategy(strategy));
    ASSERT_EQ(rows.size(), each["rows"].size()) << strategy;
    for (size_t i = 0; i < rows.size(); ++i) {
      PackedRow expected;
      for (const Json& part : each["rows"][i]) expected.push_back({part[0], part[1], part[2]});
      if (strategy != "wrapped") {
        EXPECT_EQ(rows[i], expected) << strategy << ", row " << i;
        continue;
      }
      int64_t tokens = 0;
      for (const PackedPart& part : rows[i]) tokens += part.tokens;
      EXPECT_EQ(tokens, expected[0].tokens);
      EXPECT_EQ(rows[i][0].sample, expected[0].sample);
      EXPECT_EQ(rows[i][0].begin, expected[0].begin);
    }
  }
}

std::vector<Features> samples_of(const std::vector<std::vector<int64_t>>& ids) {
  std::vector<Features> samples;
  for (const auto& each : ids) {
    Features& features = samples.emplace_back();
    features.sequences["input_ids"] = each;
    features.sequences["labels"] = each;
  }
  return samples;
}

TEST(Packing, NumbersTheSamplesOfARowAndLearnsNoFirstToken) {
  const auto packed = packed_features(samples_of({{1, 2}, {3, 4, 5}, {6}}), 5, PackingStrategy::kBestFit);
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0].sequences.at("input_ids"), (std::vector<int64_t>{3, 4, 5, 1, 2}));
  EXPECT_EQ(packed[0].sequences.at("seq_idx"), (std::vector<int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(packed[0].sequences.at("labels"), (std::vector<int64_t>{-100, 4, 5, -100, 2}));
  const auto wrapped = packed_features(samples_of({{1, 2}, {3, 4, 5}}), 4, PackingStrategy::kWrapped);
  ASSERT_EQ(wrapped.size(), 2u);
  EXPECT_EQ(wrapped[0].sequences.at("labels"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_FALSE(wrapped[0].sequences.contains("seq_idx"));
}

TEST(Packing, EachPaddedTokenIsATextOfItsOwn) {
  const auto packed = packed_features(samples_of({{1, 2}, {3}}), 5, PackingStrategy::kBestFit);
  Batch batch = collate(packed, {.max_length = 5});
  number_padding(batch);
  EXPECT_EQ(batch.sequences.at("seq_idx").values, (std::vector<int64_t>{0, 0, 1, 2, 3}));
}

TEST(Packing, RefusesNamesThatItDoesNotKnow) {
  EXPECT_NE(test::message_of([] { packing_strategy("ffd"); }).find("bfd, bfd_split or wrapped"), std::string::npos);
}

}  // namespace
}  // namespace transom
