// SPDX-License-Identifier: Apache-2.0
// Numbers of the log over batches of which some have no good or no bad answers.
#include "work/train/tasks/preferences/objectives/kto_objective.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace transom {
namespace {

Tensor number(double value) { return Tensor::from<float>(std::vector<float>{static_cast<float>(value)}, {}); }

// What a batch adds up to: rewards of good and of bad answers, and how many there are.
Tensor sums_of(double good, double goods, double bad, double bads) {
  const Tensor none = number(0), one = number(1);
  return joined_sums({none, none, none, none, number(good), none, number(bad), none},
                     {one, one, one, one, number(goods), number(goods), number(bads), number(bads)});
}

TEST(KtoObjective, MarginsAreOfBatchesWithGoodAndBadAnswersAlone) {
  const KtoObjective objective({}, nullptr, std::nullopt, false);
  const BatchMeasures& measures = *objective.measures();
  MeasureMeans log;
  log.add(measures.values(sums_of(3, 2, 1, 2)).to_vector<float>());    // 1.5 - 0.5
  log.add(measures.values(sums_of(12, 3, 0, 0)).to_vector<float>());   // good ones alone
  log.add(measures.values(sums_of(0, 0, -20, 4)).to_vector<float>());  // bad ones alone
  const auto means = log.means();
  const auto mean = [&](const std::string& name) {
    const auto place = std::find(measures.names.begin(), measures.names.end(), name) - measures.names.begin();
    return means.at(static_cast<size_t>(place)).value_or(-100);
  };
  EXPECT_FLOAT_EQ(static_cast<float>(mean("rewards/chosen")), (1.5f + 4) / 2);
  EXPECT_FLOAT_EQ(static_cast<float>(mean("rewards/rejected")), (0.5f - 5) / 2);
  EXPECT_FLOAT_EQ(static_cast<float>(mean("rewards/margins")), 1);
}

}  // namespace
}  // namespace transom
