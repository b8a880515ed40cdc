// SPDX-License-Identifier: Apache-2.0
// A vendor costs backends/gpu few lines, and scripts/count-gpu-lines notices one that costs more.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

transom::test::CommandOutcome count_lines(const std::string& root) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/count-gpu-lines '" + root + "'");
}

TEST(CountGpuLines, EachVendorOfThisTreeCostsFewerThanAllowed) {
  const auto outcome = count_lines(transom::test::source_folder());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* vendor : {"cuda: ", "rocm: ", "opencl: "})
    EXPECT_NE(outcome.output.find(vendor), std::string::npos) << outcome.output;
}

TEST(CountGpuLines, WhatIsOverOrInNoRowIsNamed) {
  const transom::test::TemporaryFolder folder;
  const fs::path gpu = folder.path() / "backends/gpu";
  fs::create_directories(gpu);
  for (const char* room : {"api", "collectives", "source"})
    fs::copy(fs::path(transom::test::source_folder()) / "backends/gpu" / room, gpu / room);
  const std::string root = folder.path().string(), as_they_are = count_lines(root).output;
  {
    std::ofstream file(gpu / "api/api_rocm.cpp", std::ios::app);
    for (int i = 0; i < 1000; ++i) file << "// a comment\n}  // namespace transom::gpu\n\n";
  }
  EXPECT_EQ(count_lines(root).output, as_they_are) << "neither comments nor brackets count";
  {
    std::ofstream file(gpu / "api/api_rocm.cpp", std::ios::app);
    for (int i = 0; i < 400; ++i) file << "int x" << i << ";\n";
  }
  std::ofstream(gpu / "api/hidden.cpp") << "int y;\n";
  const auto outcome = count_lines(root);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("fewer than 400 lines of text and runtime for rocm"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(outcome.output.find("runtime for cuda"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("backends/gpu/api/hidden.cpp: expected a row"), std::string::npos) << outcome.output;
}

}  // namespace
