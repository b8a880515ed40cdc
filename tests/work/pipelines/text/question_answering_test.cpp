// SPDX-License-Identifier: Apache-2.0
// Answers that several spans give: beside those of Transformers (tests/wild/train/qa-duplicates/make.py).
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/folders.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

TEST(QuestionAnswering, SpansOfOneTextAreOneAnswer) {
  const std::string folder = test::source_folder() + "/tests/wild/train/qa-duplicates";
  const auto task = make_pipeline("question-answering", folder + "/model");
  size_t shorter = 0;
  for (const Json& row : read_json(folder + "/answers.json")) {
    Json found = run_pipeline(*task, Json{{"question", row["question"]}, {"context", row["context"]}}, row["options"]);
    if (!found.is_array()) found = Json::array({found});
    const Json& expected = row["answers"];
    shorter += expected.size() < row["options"]["top_k"].get<size_t>();
    ASSERT_EQ(found.size(), expected.size()) << dump_json(row["options"]) << dump_json(found);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i]["answer"], expected[i]["answer"]) << dump_json(row["options"]) << dump_json(found);
      EXPECT_EQ(found[i]["start"], expected[i]["start"]);
      EXPECT_EQ(found[i]["end"], expected[i]["end"]);
      // Logits differ by some units of f32, and the scores by as much of themselves.
      EXPECT_NEAR(found[i]["score"].get<double>(), expected[i]["score"].get<double>(),
                  2e-5 * expected[i]["score"].get<double>());
    }
  }
  EXPECT_GT(shorter, 0u);  // some have fewer answers than top_k, since they were joined
}

}  // namespace
}  // namespace transom
