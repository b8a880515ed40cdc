// SPDX-License-Identifier: Apache-2.0
// transom plan, called as users call it.
#include <regex>
#include <sstream>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(PlanCommand, AnswersACaseFromStandardInput) {
  const test::CommandOutcome outcome = run("plan --case - --json",
                                           R"(echo '{"task": "generate", "model": "Llama-2-7b", "hardware": "Gaudi2",
           "global_batch": 1, "output_length": 100}' | )");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* field : {"tokens_per_second", "\"fits\": true", "past_error", "exposed_communication"})
    EXPECT_NE(outcome.output.find(field), std::string::npos) << outcome.output;
}

TEST(PlanCommand, RefusesWhatCannotBe) {
  const auto with = [](const std::string& fields) {
    return run("plan --case - --json", R"(echo '{"task": "pretrain", "model": "gpt2", )" + fields + "}' | ");
  };
  expect_one_line(with(R"("hardware": "abacus")"), 2, "hardware");
  expect_one_line(with(R"("hardware": "Gaudi2", "devices": 8, "optimisations": "tp=16")"), 2, "optimisations");
  expect_one_line(with(R"("hardware": "Gaudi", "dtype": "fp8")"), 2, "dtype");
  expect_one_line(with(R"("hardware": "Gaudi2", "sequence_length": 0)"), 2, "sequence_length");
  expect_one_line(
      with(R"("hardware": "Gaudi2", "config": {"hidden_size": 7, "num_hidden_layers": 2, "num_attention_heads": 2})"),
      2, "config.num_attention_heads");
  expect_one_line(run("plan gpt2"), 2, "--hardware");
  expect_one_line(run("plan gpt2 --hardware h100:8x0"), 2, "--hardware");
}

TEST(PlanCommand, SaysTheNearestName) {
  expect_one_line(run("plan gpt2 --hardware rtx409"), 2, "did you mean 'rtx-4090'?");
  expect_one_line(run("plan gpt3 --hardware rtx4090"), 2, "unknown model 'gpt3'");
  EXPECT_EQ(run("plan gpt2 --hardware rtx4090").status, 0);
}

TEST(PlanCommand, MeasuresTheMemoryOfAJobThatCanRunHere) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "config.json",
             R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 500,
                "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
                "max_position_embeddings": 64, "type_vocab_size": 2})");
  const std::string model = folder.path().string();
  const test::CommandOutcome outcome =
      run("plan " + model + " --measure --task train --batch 4 --sequence_length 32 --dtype fp32 --json");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* field : {"planned_bytes", "measured_bytes", "ratio", "\"emulated\": false"})
    EXPECT_NE(outcome.output.find(field), std::string::npos) << outcome.output;
  expect_one_line(run("plan " + model + " --measure --task generate"), 2, "--task");
  expect_one_line(run("plan " + model + " --measure --task train --hardware gaudi2"), 2, "--hardware");
  expect_one_line(run("plan --measure --task train"), 2, "model");
  expect_one_line(run("plan " + model + " --measure --task train --dtype fp8"), 2, "--dtype");
}

TEST(PlanCommand, ADeviceMayBeAFile) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.json";
  write_file(file, R"({"title": "my board", "peak_operations_per_second": {"fp32": 1e13},
                       "memory": {"bytes": 64e9, "bytes_per_second": 1e12}})");
  const test::CommandOutcome outcome = run("plan gpt2 --dtype fp32 --batch 1 --hardware " + file.string() + ":1");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("on 1 x my board"), std::string::npos) << outcome.output;
  expect_one_line(run("plan gpt2 --hardware " + file.string() + ".json"), 2, "hardware");
}

TEST(PlanCommand, ComparesMachinesInATable) {
  const test::CommandOutcome outcome =
      run("plan bert-large-uncased --task train --hardware gaudi2:8 --compare a100:8,h100:8 --batch 256 "
          "--sequence_length 128");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* part : {"Gaudi2", "A100-40GB", "H100-80GB", "by time:", "by cost:", "by energy:"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

// What docs/plan.md says of vendors' sentences is what the commands beside it give: lines of the form
//     transom plan ... --hardware A,B   # A against B: 1.45 by price
// "by speed" compares samples a second, "by price" samples a dollar, "a second" is a rate.
constexpr double kRounding = 0.008;  // documents have two digits behind the point, or four of a rate

struct Sentence {
  std::string arguments, kind;
  double said;
};

std::vector<Sentence> sentences() {
  const std::regex form(R"(^    transom plan (.*?) +# .*: ([0-9.]+) (by speed|by price|a second)$)");
  std::istringstream text(read_file(test::source_folder() + "/docs/plan.md"));
  std::vector<Sentence> found;
  for (std::string line; std::getline(text, line);)
    if (std::smatch match; std::regex_match(line, match, form))
      found.push_back({match[1], match[3], std::stod(match[2])});
  return found;
}

TEST(PlanSentences, DocumentsSayWhatThePlannerSays) {
  const std::vector<Sentence> all = sentences();
  EXPECT_GE(all.size(), 9u);
  for (const Sentence& sentence : all) {
    const test::CommandOutcome outcome = run("plan " + sentence.arguments + " --json");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Json json = parse_json(outcome.output, "plan");
    const auto rate = [](const Json& plan) { return plan.at("samples_per_second").get<double>(); };
    double found = 0;
    if (sentence.kind == "a second") {
      found = rate(json.is_array() ? json.at(0) : json);
    } else {
      ASSERT_EQ(json.size(), 2u) << sentence.arguments;
      found = rate(json.at(0)) / rate(json.at(1));
      if (sentence.kind == "by price")
        found *= json.at(1).at("usd_per_hour").get<double>() / json.at(0).at("usd_per_hour").get<double>();
    }
    EXPECT_NEAR(found / sentence.said, 1, kRounding) << sentence.arguments;
  }
}

}  // namespace
}  // namespace transom
