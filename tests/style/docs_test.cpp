// SPDX-License-Identifier: Apache-2.0
// Links of the documents lead somewhere, and scripts/docs notices those that do not.
#include <gtest/gtest.h>

#include <fstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

transom::test::CommandOutcome check_docs(const std::string& root) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/docs --check '" + root + "'");
}

TEST(Docs, LinksOfThisTreeLeadSomewhere) {
  const auto outcome = check_docs(transom::test::source_folder());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Docs, DeadLinksAreNamed) {
  const transom::test::TemporaryFolder folder;
  std::ofstream(folder / "a.md") << "# One thing\n\n[b](b.md), [b](b.md#two-things), [here](#one-thing)\n";
  std::ofstream(folder / "b.md") << "# `Two` things\n\n    [code](none.md)\n";
  EXPECT_EQ(check_docs(folder.path().string()).status, 0);
  std::ofstream(folder / "a.md") << "# One\n\n[c](c.md)\n[b](b.md#three)\n";
  const auto outcome = check_docs(folder.path().string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "a.md:3: there is no c.md\na.md:4: b.md has no heading #three\n");
}

}  // namespace
