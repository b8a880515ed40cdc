// SPDX-License-Identifier: Apache-2.0
// The library exports the symbols of its public headers, as cmake/transom.symbols lists them, and nothing of others.
#include <gtest/gtest.h>

#include <string>

#include "support/command.h"
#include "support/folders.h"

namespace transom {
namespace {

#ifdef NDEBUG  // without optimisation more of the headers' inline functions are symbols
TEST(Abi, TheSymbolsOfThePublicHeadersAreThoseOfTheList) {
  const test::CommandOutcome outcome = test::run_command(test::source_folder() + "/scripts/check-abi --library " +
                                                         test::build_folder() + "/lib/libtransom.so");
  if (outcome.output.find("without clang++") != std::string::npos && outcome.status == 0)
    GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}
#endif

TEST(Abi, NothingButTransomIsExported) {
  const test::CommandOutcome outcome =
      test::run_command("nm -DC --defined-only " + test::build_folder() +
                        "/lib/libtransom.so | grep -v ' A TRANSOM' | grep -v -e 'transom::' -e ' T transom_' || true");
  EXPECT_EQ(outcome.output, "");
}

}  // namespace
}  // namespace transom
