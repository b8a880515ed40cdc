// SPDX-License-Identifier: Apache-2.0
// transom bench from outside: the report, the trace, the comparison, and the dialogue with another program.
#include <gtest/gtest.h>

#include <string>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/tiny_classifier.h"

namespace transom {
namespace {

using test::TinyClassifier;

constexpr const char* kShort = " --duration 0 --iterations 2 --warmup_runs 1 --batch_size 2 --sequence_length 8 ";

test::CommandOutcome bench(const std::string& arguments, const std::string& before = "") {
  return run("bench " + arguments, before);
}

TEST(Bench, WritesAReportAndATrace) {
  const TinyClassifier model;
  const test::CommandOutcome outcome = bench(model.path() + kShort + "--task train --json " + model.file("r.json") +
                                             " --profile " + model.file("t.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* word : {"PHASE", "first_train", "KERNEL", "compilation"})
    EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
  const Json report = read_json(model.file("r.json"));
  EXPECT_EQ(report["config"]["backend"]["name"], "transom");
  EXPECT_EQ(report["config"]["scenario"]["input_shapes"]["batch_size"], 2);
  for (const char* phase : {"startup", "load_model", "overall", "warmup", "train"})
    EXPECT_GT(report["report"][phase]["latency"]["mean"].get<double>(), 0) << phase;
  EXPECT_EQ(report["report"]["train"]["latency"]["count"], 2);
  EXPECT_FALSE(report["config"]["environment"]["kernels"].empty());
  const Json trace = read_json(model.file("t.json"));
  EXPECT_GT(trace["traceEvents"].size(), 10u);
}

TEST(Bench, PrintsTheReportWhenNoFileIsNamed) {
  const TinyClassifier model;
  const test::CommandOutcome outcome = bench(model.path() + kShort + "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(parse_json(outcome.output, "output")["report"]["forward"]["latency"]["count"], 2);
  const test::CommandOutcome other = bench("--json " + model.path() + kShort);
  EXPECT_EQ(other.status, 0) << other.output;
}

TEST(Bench, ARegressionIsExitStatusOne) {
  const TinyClassifier model;
  const auto write = [&](const char* name, double seconds) {
    write_file(model.file(name), dump_json({{"forward", {{"latency", {{"values", {seconds, seconds}}}}}}}));
    return model.file(name);
  };
  const std::string old = write("old.json", 1), slower = write("slower.json", 1.1), same = write("same.json", 1.01);
  EXPECT_EQ(bench(same + " --compare " + old).status, 0);
  const test::CommandOutcome outcome = bench(slower + " --compare " + old);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("regression"), std::string::npos);
  EXPECT_NE(outcome.output.find("1.100"), std::string::npos);
  EXPECT_EQ(bench(slower + " --compare " + old + " --threshold 0.2").status, 0);
}

TEST(Bench, TrainRefusesAProfileThatItCouldNotWrite) {
  const test::CommandOutcome outcome = run("train --model_name_or_path x --train_file y --profile /nonexistent/t.json");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("/nonexistent/t.json"), std::string::npos) << outcome.output;
}

TEST(Bench, AnswersAnotherProgram) {
  const TinyClassifier model;
  const test::CommandOutcome outcome =
      bench(model.path() + kShort + "--interactive", "printf 'run 3\\nrun 1\\nquit\\n' | ");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const size_t first = outcome.output.find('\n'), second = outcome.output.find('\n', first + 1);
  EXPECT_EQ(parse_json(outcome.output.substr(0, first), "first")["samples"], 2.0);
  EXPECT_EQ(parse_json(outcome.output.substr(first, second - first), "second")["seconds"].size(), 3u);
  EXPECT_EQ(bench(model.path() + kShort + "--interactive", "printf 'jump\\n' | ").status, 1);
}

TEST(Bench, TakesOtherInputsBetweenRuns) {
  const TinyClassifier model;
  const std::vector<int64_t> tokens{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  const TensorView view{DType::kInt64, {4, 3}, std::as_bytes(std::span(tokens)), nullptr};
  write_safetensors(model.file("four.safetensors"), {{"input_ids", view}});
  const std::string commands = "printf 'inputs " + model.file("four.safetensors") + "\\nrun 2\\n' | ";
  const test::CommandOutcome outcome = bench(model.path() + kShort + "--interactive", commands);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("{\"samples\": 4.0}"), std::string::npos) << outcome.output;
  EXPECT_EQ(bench(model.path() + kShort + "--interactive", "printf 'inputs /nonexistent.safetensors\\n' | ").status, 1);
}

TEST(Bench, WrongCallsNameTheirFlag) {
  const TinyClassifier model;
  for (const char* call : {"", "--task forwrad x", "x --dtype int8", "x --threads -1", "r.json"}) {
    const test::CommandOutcome outcome = bench(call);
    EXPECT_EQ(outcome.status, 2) << call << outcome.output;
  }
  EXPECT_EQ(bench("/nonexistent").status, 1);
  EXPECT_EQ(bench(model.path() + " --json /nonexistent/r.json").status, 1);
  EXPECT_EQ(bench(model.path() + " --compare /nonexistent.json").status, 1);
}

}  // namespace
}  // namespace transom
