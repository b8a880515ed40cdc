// SPDX-License-Identifier: Apache-2.0
// Passes ask the record of an operation, by its traits or by the record itself, never its name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "graph/ir/operation.h"
#include "support/folders.h"

namespace transom {
namespace {

// What a source text asks by name: expressions that read the name of a record, and literals that are one.
std::string names_in(const std::string& source) {
  std::string found;
  const auto add = [&](const std::regex& pattern, auto&& wrong) {
    for (std::sregex_iterator match(source.begin(), source.end(), pattern), end; match != end; ++match)
      if (wrong(*match)) found += (found.empty() ? "" : " ") + match->str();
  };
  add(std::regex(R"((operation(\(\))?|op)(->|\.)name\b|find_operation\()"), [](const std::smatch&) { return true; });
  add(std::regex(R"re("([a-z0-9_]+)")re"), [](const std::smatch& match) {
    for (const Operation* operation : all_operations())
      if (operation->name == match.str(1)) return true;
    return false;
  });
  return found;
}

TEST(Passes, CompareNoNamesOfOperations) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(test::source_folder() + "/src/graph/passes")) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path());
    const std::string source{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_FALSE(source.empty()) << file.path();
    EXPECT_EQ(names_in(source), "") << file.path() << ": ask a trait of the record, or is_op(node, op::name)";
  }
}

TEST(Passes, ComparisonsOfNamesAreFound) {
  EXPECT_NE(names_in("if (node.operation->name == other) return;"), "");
  EXPECT_NE(names_in("return is(x, \"reshape\");"), "");
  EXPECT_NE(names_in("static const Operation& fusion = find_operation(\"fusion\");"), "");
  EXPECT_EQ(names_in("return is_op(x, op::reshape) && x.node()->attributes.get_ints(\"shape\").empty();"), "");
}

}  // namespace
}  // namespace transom
