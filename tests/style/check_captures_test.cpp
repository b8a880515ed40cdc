// SPDX-License-Identifier: Apache-2.0
// No lambda captures a structured binding, and scripts/check-captures notices one that does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

transom::test::CommandOutcome check_captures(const std::string& root) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/check-captures '" + root + "'");
}

TEST(CheckCaptures, FindNoneInThisTree) {
  const auto outcome = check_captures(transom::test::source_folder());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(CheckCaptures, OfBindingsAreNamed) {
  const transom::test::TemporaryFolder folder;
  for (const char* room : {"src", "bench", "build"}) fs::create_directories(folder.path() / room);
  const char* const captures =
      "int one(const Pair& pair) {\n  const auto [a, b] = pair;\n  return use([&] { return b; });\n}\n";
  std::ofstream(folder.path() / "bench/b.h") << captures;
  std::ofstream(folder.path() / "build/c.cpp") << captures;  // what a build wrote is not of the tree
  std::ofstream(folder.path() / "src/a.cpp") << R"(
int taken(const Pairs& pairs) {
  for (const auto& [name, value] : pairs) {
    use([&, &value = value] { return value; });       // its own
    use([&](int name) { return name; });              // a parameter
    use([&](const auto& x) { return x.name + 1; });   // a member
  }
  const auto name = 1;
  return use([&] { return name; });                   // another, behind the loop
}
int refused(const Pairs& pairs) {
  const auto [first, second] = pairs[0];
  use([first] { return first; });
  return use([&] { return second; });
}
)";
  const auto outcome = check_captures(folder.path().string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output,
            "bench/b.h:3: the lambda captures the structured binding b, which clang 14 refuses; write "
            "[..., &b = b]\n"
            "src/a.cpp:13: the lambda captures the structured binding first, which clang 14 refuses; write "
            "[..., &first = first]\n"
            "src/a.cpp:14: the lambda captures the structured binding second, which clang 14 refuses; write "
            "[..., &second = second]\n");
}

}  // namespace
