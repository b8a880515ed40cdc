// SPDX-License-Identifier: Apache-2.0
// The recorded random ONNX files, in all modes. More: the program random_models.
#include <gtest/gtest.h>

#include "random_models/model_case.h"
#include "support/folders.h"
#include "transom/device.h"

namespace transom::random_models {
namespace {

TEST(RecordedModels, GiveInAllModesWhatTheEvaluatorsGive) {
  set_device("cpu");
  size_t tried = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(test::source_folder() + "/tests/random_models/recorded"))
    for (const ModelCase& model_case : read_cases(entry.path())) {
      const Verdict verdict = check_case(model_case);
      ++tried, refused += verdict.refused;
      if (verdict.refused) continue;
      EXPECT_EQ(verdict.difference, "") << entry.path().filename().string() << ", case " << model_case.name;
    }
  EXPECT_GT(tried, 100u);
  EXPECT_LT(refused, tried / 20);
}

}  // namespace
}  // namespace transom::random_models
