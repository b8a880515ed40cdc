// SPDX-License-Identifier: Apache-2.0
// The program from outside: exit status, one line of error, nothing half-written.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(Program, ShowsItsHelp) {
  const test::CommandOutcome outcome = run("--help");
  EXPECT_EQ(outcome.status, 0);
  for (const char* word : {"train", "run", "forward", "tokenize", "devices"})
    EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
}

TEST(Program, WrongCallsExitWithTwo) {
  EXPECT_EQ(run("no-such-command").status, 2);
  expect_one_line(run("forward --modle x"), 2, "--");
  expect_one_line(run("train --learning_rat 1"), 2, "did you mean");
  expect_one_line(run("run no-such-task --model x y"), 2, "unknown task");
}

TEST(Program, FailuresExitWithOneAndNameTheFile) {
  const test::TemporaryFolder folder;
  const std::string out = (folder / "out.safetensors").string();
  expect_one_line(run("forward --model /nonexistent --inputs x --outputs " + out), 1, "/nonexistent");
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_one_line(run("tokenize --tokenizer /nonexistent --inputs x --outputs " + out), 1, "/nonexistent");
  expect_one_line(run("forward --device no-such --model x --inputs x --outputs " + out), 1, "no device");
}

TEST(Program, RefusesAnUnknownArchitectureByName) {
  const test::TemporaryFolder folder;
  write_file(folder / "config.json", R"({"model_type": "bertt"})");

  std::string bytes = "{}      ";
  bytes.insert(0, std::string("\x08\0\0\0\0\0\0\0", 8));
  write_file(folder / "model.safetensors", bytes);
  expect_one_line(run("forward --model " + folder.string() + " --inputs x --outputs y"), 1, "did you mean 'bert'?");
  write_file(folder / "model.safetensors", "short");
  expect_one_line(run("forward --model " + folder.string() + " --inputs x --outputs y"), 1, "model.safetensors");
}

TEST(Program, ListsItsDevices) {
  const test::CommandOutcome outcome = run("devices --json");
  EXPECT_EQ(outcome.status, 0);
  for (const char* name : {"\"cpu\"", "\"reference\"", "\"null\""})
    EXPECT_NE(outcome.output.find(name), std::string::npos) << name;
}

TEST(Program, SaysItsVersion) {
  const test::CommandOutcome outcome = run("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.output.starts_with("transom ")) << outcome.output;
  for (const char* part : {"oneDNN 3.", "ICU 7", "libtransom_cpu.so"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in " << outcome.output;
}

TEST(Program, SaysWhatIsNotSupportedYet) {
  const test::CommandOutcome outcome = run("devices");
  EXPECT_NE(outcome.output.find("Not supported yet: GPUs of Apple"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("there is no plugin"), std::string::npos) << outcome.output;
}

TEST(Program, ListsModelsByAPartOfTheirNames) {
  const test::CommandOutcome outcome = run("models distilbert");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("DistilBertForMaskedLM"), std::string::npos);
  EXPECT_EQ(outcome.output.find("gpt2"), std::string::npos);
  EXPECT_NE(run("models fill-mask").output.find("RobertaForMaskedLM"), std::string::npos);
  expect_one_line(run("models distilbret"), 2, "did you mean 'distilbert'?");
}

}  // namespace
}  // namespace transom
