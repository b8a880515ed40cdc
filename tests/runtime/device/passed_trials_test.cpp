// SPDX-License-Identifier: Apache-2.0
// What is remembered of a plugin that did no harm, and when it is tried again.
#include "runtime/device/passed_trials.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/temporary_folder.h"

namespace transom {
namespace {

class Trials : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", folder_.string().c_str(), 1);
    plugin_ = folder_.write("libtransom_some.so", "one");
  }
  void TearDown() override {
    if (before_.empty()) unsetenv("XDG_CACHE_HOME");
    else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  test::TemporaryFolder folder_;
  std::string before_;
  fs::path plugin_;
};

TEST_F(Trials, AreRememberedForTheSameFile) {
  EXPECT_FALSE(PassedTrials(plugin_).contain_this());
  PassedTrials(plugin_).add();
  EXPECT_TRUE(PassedTrials(plugin_).contain_this());
  EXPECT_FALSE(PassedTrials(folder_.write("libtransom_other.so", "one")).contain_this());
}

TEST_F(Trials, AreRepeatedForAnotherFileOfTheName) {
  PassedTrials(plugin_).add();
  folder_.write("libtransom_some.so", "longer");
  EXPECT_FALSE(PassedTrials(plugin_).contain_this());
}

TEST_F(Trials, AreRepeatedForAnotherEnvironment) {
  PassedTrials(plugin_).add();
  setenv("TRANSOM_A_DRIVER", "elsewhere", 1);
  EXPECT_FALSE(PassedTrials(plugin_).contain_this());
  unsetenv("TRANSOM_A_DRIVER");
  EXPECT_TRUE(PassedTrials(plugin_).contain_this());
}

TEST_F(Trials, AreNotRememberedWhereNothingCanBeWritten) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  PassedTrials(plugin_).add();
  EXPECT_FALSE(PassedTrials(plugin_).contain_this());
  EXPECT_FALSE(PassedTrials(folder_.path() / "absent.so").contain_this());
}

}  // namespace
}  // namespace transom
