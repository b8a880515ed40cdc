// SPDX-License-Identifier: Apache-2.0
// Scripts of pages are what a browser can read.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/command.h"
#include "support/folders.h"

namespace transom {
namespace {

TEST(Pages, ScriptsAreJavaScript) {
  if (test::run_command("node --version").status != 0) GTEST_SKIP() << "node is not here";
  size_t scripts = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_folder() + "/src")) {
    if (entry.path().extension() != ".js") continue;
    const test::CommandOutcome outcome = test::run_command("node --check '" + entry.path().string() + "'");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    ++scripts;
  }
  EXPECT_GE(scripts, 3u);
}

}  // namespace
}  // namespace transom
