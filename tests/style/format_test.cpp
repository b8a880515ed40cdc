// SPDX-License-Identifier: Apache-2.0
// Every C++ file is as clang-format writes it.
#include <gtest/gtest.h>

#include <string>

#include "support/command.h"
#include "support/folders.h"

namespace transom {
namespace {

TEST(Format, AllFilesAreAsTheToolWritesThem) {
  const test::CommandOutcome outcome = test::run_command(test::source_folder() + "/scripts/check-format");
  if (outcome.output.find("skipped") != std::string::npos) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

}  // namespace
}  // namespace transom
