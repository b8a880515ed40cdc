// SPDX-License-Identifier: Apache-2.0
// Names of parameterised tests are words: each suite says how its parameters are called.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/folders.h"

namespace transom {
namespace {

// The end of a string literal that begins at `at`.
size_t end_of_literal(const std::string& source, size_t at) {
  if (at > 0 && source[at - 1] == 'R') {
    const size_t open = source.find('(', at);
    const std::string close = ")" + source.substr(at + 1, open - at - 1) + "\"";
    return source.find(close, open) + close.size() - 1;
  }
  for (++at; at < source.size() && source[at] != '"'; ++at)
    if (source[at] == '\\') ++at;
  return at;
}

// The suites of a source text that are instantiated without a function for the names of their parameters: gtest then
// calls them by their numbers, and shows bytes for what it cannot print.
std::vector<std::string> suites_without_names(const std::string& source) {
  const std::string macro = std::string("INSTANTIATE_TEST") + "_SUITE_P(";
  std::vector<std::string> found;
  for (size_t begin = source.find(macro); begin != std::string::npos; begin = source.find(macro, begin + 1)) {
    std::vector<std::string> arguments(1);
    int depth = 1;
    for (size_t at = begin + macro.size(); at < source.size(); ++at) {
      const char c = source[at];
      if (c == '"') {
        at = end_of_literal(source, at);
        arguments.back() += '"';
        continue;
      }
      if (c == '/' && source[at + 1] == '/') at = source.find('\n', at);
      depth += (c == '(' || c == '{' || c == '[') - (c == ')' || c == '}' || c == ']');
      if (depth == 0) break;
      if (c == ',' && depth == 1) arguments.emplace_back();
      else if (!std::isspace(static_cast<unsigned char>(c))) arguments.back() += c;
    }
    if (arguments.size() == 3) found.push_back(arguments[1]);
  }
  return found;
}

TEST(TestNames, OfParametersAreWords) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_folder() + "/tests")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream stream(entry.path());
    const std::string source{std::istreambuf_iterator<char>(stream), {}};
    ++files;
    for (const std::string& suite : suites_without_names(source))
      ADD_FAILURE() << entry.path() << ": " << suite << ": name its parameters (tests/support/test_names.h)";
  }
  EXPECT_GT(files, 100u);
}

TEST(TestNames, SuitesWithoutThemAreFound) {
  const std::string macro = std::string("INSTANTIATE_TEST") + "_SUITE_P(";
  EXPECT_EQ(suites_without_names(macro + "All, Suite, testing::Values(Case{1, \"a, b)\"}, Case{2, R\"(,)\"}));"),
            std::vector<std::string>{"Suite"});
  EXPECT_TRUE(suites_without_names(macro + "All, Suite, testing::Values(1, 2), NameOfCase());").empty());
  EXPECT_TRUE(
      suites_without_names(macro + "All, Suite, testing::Bool(), [](const auto& info) { return \"x\"; });").empty());
}

}  // namespace
}  // namespace transom
