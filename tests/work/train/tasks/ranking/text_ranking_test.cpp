// SPDX-License-Identifier: Apache-2.0
// Runs of --task text-ranking against CrossEncoderTrainer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "transom/pipeline.h"

namespace transom {
namespace {

fs::path ranking_folder() { return test::golden_folder() / "sentences"; }

std::vector<std::string> ranking_runs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ranking_folder() / "runs"))
    if (read_json(entry.path())["task"] == "text-ranking") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class RankingRuns : public testing::TestWithParam<std::string> {};

TEST_P(RankingRuns, LogWhatTheLibraryLogs) {
  const Json about = read_json(ranking_folder() / "runs" / (GetParam() + ".json"));
  const test::TemporaryFolder work;
  Json given = about["arguments"];
  const auto path = [&](const char* name) {
    return (ranking_folder() / "runs" / about[name].get<std::string>()).lexically_normal().string();
  };
  given["task"] = "text-ranking";
  given["model_name_or_path"] = path("model");
  given["train_file"] = path("rows");
  given["max_seq_length"] = 24;
  given["output_dir"] = (work.path() / "out").string();
  given["save_strategy"] = "no";
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(given), "arguments"));
  const Json found = read_json(work.path() / "out" / "trainer_state.json")["log_history"],
             expected = about["log_history"];
  ASSERT_EQ(found.size(), expected.size());
  const double rtol = about["rtol"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      const double right = value;
      EXPECT_NEAR(found[i][name].get<double>(), right, rtol * std::max(1e-3, std::abs(right)))
          << name << " of record " << i + 1;
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, RankingRuns, testing::ValuesIn(ranking_runs()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name;
                           for (const char letter : info.param)
                             if (letter != '-') name += letter;
                           return name;
                         });

class TextRankingTraining : public testing::Test {
 protected:
  std::string run(const std::string& rows, std::vector<std::string> flags) {
    write_file(work_.path() / "rows.jsonl", rows);
    flags.insert(flags.end(), {"--task", "text-ranking", "--model_name_or_path",
                               (ranking_folder() / "models" / "ranker").string(), "--train_file",
                               (work_.path() / "rows.jsonl").string(), "--output_dir", (work_.path() / "out").string(),
                               "--max_steps", "2", "--per_device_train_batch_size", "2", "--overwrite_output_dir"});
    const test::KeptLog log;
    return test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
  }
  test::TemporaryFolder work_;
};

TEST_F(TextRankingTraining, BadRowsAreNamedBeforeTheFirstStep) {
  struct Bad {
    const char *row, *loss, *message;
  };
  const Bad cases[] = {
      {R"({"query": "a", "doc": "b", "label": 1.5})", "BinaryCrossEntropyLoss", "from 0 to 1"},
      {R"({"query": "a", "docs": ["b", "c"], "labels": [1.0]})", "LambdaLoss", "expected 2 numbers"},
      {R"({"query": "a", "docs": [], "labels": []})", "ListNetLoss", "a list of texts"},
      {R"({"query": "a", "doc": "b"})", "RankNetLoss", "a list labels"},
      {R"({"query": "a", "doc": "b", "label": 1})", "MarginMSELoss", "3 to 64 columns"},
  };
  for (const Bad& bad : cases) {
    const std::string message = run(std::string(bad.row) + "\n", {"--loss", bad.loss});
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.loss << ": " << message;
    EXPECT_NE(message.find("rows.jsonl"), std::string::npos) << message;
  }
  EXPECT_NE(run("{\"a\": \"x\", \"b\": \"y\", \"label\": 1}\n", {"--loss", "ListNetLos"}).find("ListNetLoss"),
            std::string::npos);
}

TEST_F(TextRankingTraining, WhatIsSavedRanks) {
  const std::string row = "{\"query\": \"A licence?\", \"doc\": \"It is granted.\", \"label\": 1}\n";
  ASSERT_EQ(run(row + row, {}), "");
  const auto ranker = pipeline("text-ranking", (work_.path() / "out").string());
  const Json result =
      parse_json(ranker.run_json(R"({"query": "A licence?", "documents": ["It is granted.", "short"]})"), "result");
  EXPECT_EQ(result.size(), 2u);
}

}  // namespace
}  // namespace transom
