// SPDX-License-Identifier: Apache-2.0
// A few random layouts; more of them by hand: TRANSOM_RANDOM_LAYOUTS=FIRST,COUNT sharding_tests
// --gtest_filter=RandomLayouts.*
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "models/sharding/random_layouts.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

// Sums of several processes are rounded in another order.
constexpr double kRounding = 2e-5;

TEST(RandomLayouts, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  unsigned long long first = 1, count = 3;
  const char* wanted = std::getenv("TRANSOM_RANDOM_LAYOUTS");
  if (wanted) {
    ASSERT_EQ(std::sscanf(wanted, "%llu,%llu", &first, &count), 2) << wanted;
  }
  double largest = 0;
  for (unsigned long long seed = first; seed < first + count; ++seed) {
    const test::TemporaryFolder folder;
    const RandomLayout layout = random_layout(seed);
    try {
      const double difference = difference_of_curves(layout, folder);
      largest = std::max(largest, difference);
      EXPECT_LT(difference, kRounding) << "seed " << seed << ": " << layout.describe();
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << layout.describe();
    }
    if (wanted) {
      std::printf("%llu: %.2g at most\n", seed, largest);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace transom
