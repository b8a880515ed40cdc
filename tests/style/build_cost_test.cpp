// SPDX-License-Identifier: Apache-2.0
// No folder costs much more to compile than scripts/build_cost.json says, and scripts/build-cost notices one that does.
#include <gtest/gtest.h>

#include <string>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

test::CommandOutcome build_cost(const std::string& arguments) {
  return test::run_command(test::source_folder() + "/scripts/build-cost --build " + test::build_folder() + " " +
                           arguments);
}

TEST(BuildCost, NoFolderHasGrownByMoreThanAFifth) {
  const test::CommandOutcome outcome = build_cost("--check");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(BuildCost, AGrownFolderIsNamed) {
  const test::TemporaryFolder folder;
  const std::string allowed = (folder / "allowed.json").string();
  ASSERT_EQ(build_cost("--update --allowed " + allowed).status, 0);
  EXPECT_EQ(build_cost("--check --allowed " + allowed).output, "");
  Json costs = read_json(allowed);
  ASSERT_TRUE(costs.contains("src/graph/ops"));
  costs["src/graph/ops"] = costs["src/graph/ops"].get<double>() / 1.5;
  write_file(allowed, dump_json(costs));
  const test::CommandOutcome outcome = build_cost("--check --allowed " + allowed);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.output.starts_with("src/graph/ops: the compiler reads ")) << outcome.output;
}

}  // namespace
}  // namespace transom
