// SPDX-License-Identifier: Apache-2.0
// The program on emulated IPUs with an ipu_config.json, as its users run it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom::test {

class IpuOptions : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 1);
    ::unsetenv("TRANSOM_IPU_CONFIG");
    if (Program({"devices"}, folder_).wait().output.find("ipu:3") == std::string::npos)
      GTEST_SKIP() << "four IPUs are not here";
  }
  void TearDown() override { ::unsetenv("TRANSOM_IPU_CONFIG"); }

  void save_small_model() { test::save_model_and_rows(folder_, 24); }
  void configure(const std::string& config) {
    write_file(folder_ / "ipu_config.json", config);
    ::setenv("TRANSOM_IPU_CONFIG", (folder_ / "ipu_config.json").c_str(), 1);
  }
  Outcome train(const std::string& output, int batch, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--max_steps", "3"});
    return Program(test::training_words(folder_, "ipu", output, batch, more), folder_).wait();
  }
  std::string weights(const std::string& output) { return read_file(folder_ / output / "model.safetensors"); }

  // What the machine tells of a program, of a model with random weights.
  Json machine(const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words{
        "explain",     (folder_ / model).string(), "--device", "ipu", "--no_weights", "--runs", "1", "--json",
        "explain.json"};
    words.back() = (folder_ / "explain.json").string();
    words.insert(words.end(), more.begin(), more.end());
    ::setenv("TRANSOM_EMULATED_IPU", "bow:4:clocks", 1);
    const Outcome outcome = Program(words, folder_).wait();
    ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 1);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return read_json(folder_ / "explain.json")["machine"];
  }
  // Bytes of the fullest tile, where TRANSOM_LOG=memory tells of each program: of the one with the most.
  static int64_t most_in(const std::string& text) {
    const std::string key = "fullest tile ";
    int64_t most = 0;
    for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1))
      most = std::max<int64_t>(most, std::atoll(text.c_str() + at + key.size()));
    EXPECT_GT(most, 0);
    return most;
  }
  test::TemporaryFolder folder_;
};

}  // namespace transom::test
