// SPDX-License-Identifier: Apache-2.0
// The program, called as users call it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/command.h"
#include "support/folders.h"

namespace transom {

// `before` comes in front of the program: what feeds its standard input.
inline test::CommandOutcome run(const std::string& arguments, const std::string& before = "") {
  return test::run_command(before + test::build_folder() + "/bin/transom " + arguments);
}

inline void expect_one_line(const test::CommandOutcome& outcome, int status, const std::string& part) {
  EXPECT_EQ(outcome.status, status) << outcome.output;
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

}  // namespace transom
