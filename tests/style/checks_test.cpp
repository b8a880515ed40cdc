// SPDX-License-Identifier: Apache-2.0
// The further checks of scripts/test and .ci/run name test programs and checks that there are.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/folders.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

std::string text_of_script(const std::string& path) {
  std::ifstream in(test::source_folder() + "/" + path);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// The words of each list NAME=(...) of a shell script.
std::vector<std::string> words_of_lists(const std::string& script, const std::string& name) {
  std::vector<std::string> words;
  const std::regex list(name + R"(=\(([a-z_ ]+)\))");
  for (auto found = std::sregex_iterator(script.begin(), script.end(), list); found != std::sregex_iterator();
       ++found) {
    std::istringstream in((*found)[1].str());
    for (std::string word; in >> word;) words.push_back(word);
  }
  return words;
}

TEST(FurtherChecks, NameTestProgramsThatThereAre) {
  const auto folders = words_of_lists(text_of_script("scripts/test"), "folders");
  EXPECT_GE(folders.size(), 10u);
  for (const std::string& folder : folders) {
    EXPECT_TRUE(fs::exists(test::build_folder() + "/bin/" + folder + "_tests"))
        << "scripts/test names the tests of '" << folder << "', and no folder of tests/ is a program of that name";
  }
}

TEST(FurtherChecks, OfContinuousIntegrationAreThoseOfTheScript) {
  const std::string script = text_of_script("scripts/test");
  const auto checks = words_of_lists(text_of_script(".ci/run"), "checks");
  EXPECT_GE(checks.size(), 6u);
  for (const std::string& check : checks) {
    EXPECT_NE(script.find("check_" + check + "() {"), script.npos) << ".ci/run names the check '" << check << "'";
  }
}

}  // namespace
}  // namespace transom
