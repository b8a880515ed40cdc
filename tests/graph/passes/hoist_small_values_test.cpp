// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

TEST(HoistVectors, PutsSmallTensorsOfInputsFirst) {
  EXPECT_EQ(print_graph(hoist_small_values(parse_graph(R"(graph(%0: f32[4], %1: f32[200, 300]) {
    %2 = exp(%1) : f32[200, 300]
    %3 = sqrt(%0) : f32[4]
    %4 = reduce_sum(%2) {axes=[0, 1]} : f32[]
    %5 = neg(%4) : f32[]
    %6 = reshape(%3) {shape=[1, 4]} : f32[1, 4]
    return %2, %5, %6
  })"))),
            R"(graph(%0: f32[4], %1: f32[200, 300]) {
  %2 = sqrt(%0) : f32[4]
  %3 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
  %4 = exp(%1) : f32[200, 300]
  %5 = reduce_sum(%4) {axes=[0, 1]} : f32[]
  %6 = neg(%5) : f32[]
  return %4, %6, %3
}
)");
}

}  // namespace
}  // namespace transom
