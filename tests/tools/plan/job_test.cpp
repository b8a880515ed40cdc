// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/job.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

std::string job_error(const std::string& text) {
  try {
    parse_job(text, "case");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Job, ReadsTheFieldsOfACase) {
  const Job job = parse_job(
      R"({"task": "pretrain", "model": "m", "parameters": 3.35e8, "global_batch": 54784,
      "sequence_length": 128,
      "phase": "packed: value counts original sequences, 1.17 a slot", "dtype": "fp16.16", "hardware": "Bow",
      "devices": 16,
      "hosts": 1, "optimisations": "pp=4; replicas=4", "batch_per_device": null, "output_length": ""})",
      "case");
  EXPECT_EQ(job.task, JobTask::kPretrain);
  EXPECT_EQ(job.global_batch, 54784);
  EXPECT_EQ(job.batch_per_device, 0);
  EXPECT_DOUBLE_EQ(job.samples_a_slot(), 1.17);
  EXPECT_EQ(precision_of(job).engine, "fp16");
}

TEST(Job, NamesTheFieldThatIsWrong) {
  EXPECT_NE(job_error(R"({"hardware": "h"})").find("task is missing"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "train a lot", "hardware": "h"})").find("task"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer"})").find("hardware is missing"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "devices": 0})").find("devices"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "devices": 1.5})").find("devices"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "sequence_length": -4})").find("sequence_length"),
            std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "global_batch": 1e300})").find("global_batch"),
            std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "dtype": "bf17"})").find("dtype"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "config": []})").find("config"), std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardware": "h", "devices": 2, "hosts": 3})").find("hosts"),
            std::string::npos);
  EXPECT_NE(job_error(R"({"task": "infer", "hardw)").find("case"), std::string::npos);
  EXPECT_NE(job_error("[1]").find("object"), std::string::npos);
}

TEST(Job, FlippedAndCutBytesAreErrorsAndNothingElse) {
  const std::string whole = R"({"task": "infer", "hardware": "h", "devices": 2, "config": {"hidden_size": 8}})";
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x15);
    for (const std::string& text : {flipped, whole.substr(0, i)}) {
      try {
        parse_job(text, "case");
      } catch (const Error&) {
      }
    }
  }
}

TEST(Job, MaturityFollowsTheSoftware) {
  Job job;
  job.software = "PyTorch eager";
  EXPECT_EQ(job.maturity(), Maturity::kEager);
  job.software = "vLLM";
  EXPECT_EQ(job.maturity(), Maturity::kRecorded);
  job.phase = "MLPerf BERT";
  EXPECT_EQ(job.maturity(), Maturity::kTuned);
  EXPECT_EQ(Job{}.maturity(), Maturity::kLazy);
}

}  // namespace
}  // namespace transom
