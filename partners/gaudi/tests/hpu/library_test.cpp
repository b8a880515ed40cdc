// SPDX-License-Identifier: Apache-2.0
// Libraries that are missing, wrong or fail, and recipes on disk, as users of the program meet them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "testing/files.h"
#include "testing/program.h"
#include "testing/small_model.h"
#include "testing/temporary_folder.h"
#include "transom/device.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;
using test::save_small_model;
using test::write_rows;

class HpuLibrary : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"TRANSOM_SYNAPSE_FAULT", "TRANSOM_SYNAPSE_LOG", "PT_HPU_RECIPE_CACHE_CONFIG"})
      ::unsetenv(name);
    if (library_) ::setenv("TRANSOM_SYNAPSE_LIBRARY", library_, 1);
  }
  Outcome run(const std::vector<std::string>& words) const { return Program(words, folder_).wait(); }
  // Trains the small model for two steps; false where there is no card and no emulator.
  bool train(Outcome& outcome) {
    if (run({"devices"}).output.find("Intel Gaudi") == std::string::npos) return false;
    set_device("cpu");  // the card is for the program that is run
    save_small_model(folder_ / "model");
    write_rows(folder_ / "rows.jsonl", 16);
    outcome = train_again();
    return true;
  }
  Outcome train_again() {
    return run({"train", "--device", "hpu", "--model_name_or_path", (folder_ / "model").string(), "--train_file",
                (folder_ / "rows.jsonl").string(), "--output_dir", (folder_ / "out").string(), "--max_steps", "2",
                "--overwrite_output_dir"});
  }
  std::string contents(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string weights() const { return contents("out/model.safetensors"); }

  test::TemporaryFolder folder_;
  const char* library_ = std::getenv("TRANSOM_SYNAPSE_LIBRARY");
};

TEST_F(HpuLibrary, ThatIsMissingOrWrongIsSaidInOneLine) {
  const std::string kept = library_ ? library_ : "";
  for (const auto& [name, reason] :
       {std::pair("/nonexistent/libSynapse.so", "was not found"), std::pair("libm.so.6", "is no Synapse library")}) {
    ::setenv("TRANSOM_SYNAPSE_LIBRARY", name, 1);
    const Outcome outcome = run({"devices"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("cpu"), std::string::npos) << outcome.output;
  }
  if (kept.empty()) ::unsetenv("TRANSOM_SYNAPSE_LIBRARY");
  else ::setenv("TRANSOM_SYNAPSE_LIBRARY", kept.c_str(), 1);
}

TEST_F(HpuLibrary, KeepsRecipesOnDiskAndMendsBrokenOnes) {
  const std::filesystem::path recipes = folder_ / "recipes";
  ::setenv("PT_HPU_RECIPE_CACHE_CONFIG", (recipes.string() + ",false,1024").c_str(), 1);
  Outcome outcome;
  if (!train(outcome)) GTEST_SKIP() << "no Gaudi here";
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const std::string first = weights();
  ASSERT_FALSE(first.empty());
  const auto count = [&] {
    size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(recipes))
      found += entry.path().extension() == ".graph";
    return found;
  };
  const size_t entries = count();
  EXPECT_GT(entries, 0u);
  ASSERT_EQ((outcome = train_again()).status, 0) << outcome.error;
  EXPECT_EQ(weights(), first);
  EXPECT_GE(count(), entries);  // a slow machine reads the loss at other moments, which makes other programs
  for (const auto& entry : std::filesystem::directory_iterator(recipes))
    if (entry.path().extension() == ".recipe") std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
  ASSERT_EQ((outcome = train_again()).status, 0) << outcome.error;
  EXPECT_EQ(weights(), first);
}

// Only an emulator hears the variable; on a card the run just succeeds, which is checked too.
TEST_F(HpuLibrary, ThatFailsAtAnyCallEndsTheRunWithOneLine) {
  Outcome outcome;
  if (!train(outcome)) GTEST_SKIP() << "no Gaudi here";
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* fault :
       {"synInitialize:1:failed", "synDeviceAcquireByModuleId:1:failed", "synStreamCreateGeneric:3:out_of_memory",
        "synEventCreate:70:failed", "synDeviceMalloc:9:out_of_memory", "synHostMalloc:1:host_out_of_memory",
        "synGraphCreate:1:failed", "synNodeCreateWithId:20:failed", "synGraphCompile:1:failed",
        "synGraphCompileV2:1:failed", "synTensorRetrieveIds:1:failed", "synMemCopyAsync:5:device_lost",
        "synLaunch:1:device_lost", "synLaunch:2:failed", "synStreamSynchronize:4:device_lost"}) {
    ::setenv("TRANSOM_SYNAPSE_FAULT", fault, 1);
    const Outcome failed = train_again();
    EXPECT_NE(failed.status, -1) << fault << " ended the program by a signal";
    if (failed.status == 0) continue;  // survived, as an allocation that is tried again
    EXPECT_NE(failed.error.find("hpu"), std::string::npos) << fault << ": " << failed.error;
  }
}

// Faults of every kind, at calls spread over a whole run: the program ends by itself with one line, leaves no handle
// behind and breaks no rule, and its checkpoint goes on to the weights of the unbroken run.
TEST_F(HpuLibrary, ThatFailsAnywhereLeavesNothingBehindAndAUsableCheckpoint) {
  Outcome outcome;
  if (!train(outcome)) GTEST_SKIP() << "no Gaudi here";
  const std::filesystem::path log = folder_ / "calls.log";
  ::setenv("TRANSOM_SYNAPSE_LOG", log.c_str(), 1);
  const auto lines_with = [&](const char* word) {
    std::ifstream file(log);
    size_t found = 0;
    for (std::string line; std::getline(file, line);) found += line.find(word) != line.npos;
    return found;
  };
  const auto train_with = [&](const std::vector<std::string>& flags) {
    std::filesystem::remove(log);
    std::vector<std::string> words = {"train",
                                      "--device",
                                      "hpu",
                                      "--model_name_or_path",
                                      (folder_ / "model").string(),
                                      "--train_file",
                                      (folder_ / "rows.jsonl").string(),
                                      "--output_dir",
                                      (folder_ / "out").string(),
                                      "--max_steps",
                                      "2",
                                      "--save_steps",
                                      "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  };
  std::filesystem::remove_all(folder_ / "out");
  outcome = train_with({});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const std::string expected = weights();
  const size_t calls = lines_with(" = ");
  if (calls == 0) GTEST_SKIP() << "a card has no log of calls";
  EXPECT_EQ(lines_with("RULE"), 0u);
  const char* const kinds[] = {"out_of_memory", "host_out_of_memory", "device_lost", "failed", "timeout", "busy"};
  constexpr size_t kTries = 18;
  for (size_t i = 0; i < kTries; ++i) {
    const std::string fault = "*:" + std::to_string(1 + i * (calls - 1) / kTries + i) + ":" + kinds[i % 6];
    SCOPED_TRACE(fault);
    ::setenv("TRANSOM_SYNAPSE_FAULT", fault.c_str(), 1);
    std::filesystem::remove_all(folder_ / "out");
    outcome = train_with({});
    EXPECT_EQ(lines_with("RULE"), 0u) << outcome.error;
    ::unsetenv("TRANSOM_SYNAPSE_FAULT");
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1) << outcome.status << ": " << outcome.error;
    std::error_code none;  // it may have ended before there was a directory
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out", none))
      EXPECT_FALSE(entry.path().filename().string().starts_with("tmp-")) << entry.path();
    if (outcome.status == 1) {
      EXPECT_EQ(outcome.error.substr(outcome.error.rfind("transom: error: ")).find('\n'),
                outcome.error.size() - 1 - outcome.error.rfind("transom: error: "))
          << outcome.error;
      const bool resumes = std::filesystem::exists(folder_ / "out" / "checkpoint-1");
      outcome = train_with(resumes ? std::vector<std::string>{"--resume_from_checkpoint", "true"}
                                   : std::vector<std::string>{});
      ASSERT_EQ(outcome.status, 0) << outcome.error;
    }
    EXPECT_EQ(weights(), expected);
  }
}

// What no kernel computes is the host's, and named.
TEST_F(HpuLibrary, SaysWhatTheHostComputesInItsPlace) {
  Outcome outcome;
  if (!train(outcome)) GTEST_SKIP() << "no Gaudi here";
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_NE(outcome.error.find("'dropout_mask' runs on the host"), std::string::npos) << outcome.error;
  EXPECT_EQ(outcome.error.find("'gather' runs on the host"), std::string::npos) << outcome.error;
}

}  // namespace
}  // namespace transom
