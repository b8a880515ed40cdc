// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

std::string lowered(std::string_view text, const Supports& supports) {
  return print_graph(lower_composites(parse_graph(text), supports));
}
bool claims_none(const Node&) { return false; }

constexpr const char* kActivation = R"(graph(%0: f32[2, 3], %1: f32[4, 3]) {
  %2 = linear(%0, %1) : f32[2, 4]
  %3 = silu(%2) : f32[2, 4]
  return %3
}
)";

TEST(LowerComposites, KeepsWhatTheDeviceClaims) {
  EXPECT_EQ(lowered(kActivation, [](const Node&) { return true; }), kActivation);
}

TEST(LowerComposites, TheOthersBecomeTheirDecomposition) {
  const std::string silu = R"(  %3 = constant() {dtype=8, value=1.0} : f32[]
  %4 = reshape(%3) {shape=[1, 1]} : f32[1, 1]
  %5 = broadcast(%4) {shape=[2, 4]} : f32[2, 4]
  %6 = neg(%2) : f32[2, 4]
  %7 = exp(%6) : f32[2, 4]
  %8 = constant() {dtype=8, value=1.0} : f32[]
  %9 = reshape(%8) {shape=[1, 1]} : f32[1, 1]
  %10 = broadcast(%9) {shape=[2, 4]} : f32[2, 4]
  %11 = add(%7, %10) : f32[2, 4]
  %12 = div(%5, %11) : f32[2, 4]
  %13 = mul(%2, %12) : f32[2, 4]
  return %13
}
)";
  const auto claims_linear = [](const Node& node) { return node.operation->name == "linear"; };
  EXPECT_EQ(lowered(kActivation, claims_linear),
            "graph(%0: f32[2, 3], %1: f32[4, 3]) {\n  %2 = linear(%0, %1) : f32[2, 4]\n" + silu);
  EXPECT_EQ(lowered(kActivation, claims_none), R"(graph(%0: f32[2, 3], %1: f32[4, 3]) {
  %2 = dot_general(%0, %1) {dtype=8, x_batch=[], x_contract=[1], y_batch=[], y_contract=[1]} : f32[2, 4]
)" + silu);
}

// Behind it, nothing joins common subexpressions any more.
TEST(LowerComposites, TakesTheBarrierAway) {
  EXPECT_EQ(lowered(R"(graph(%0: f32[2]) {
    %1 = exp(%0) : f32[2]
    %2 = optimization_barrier(%1) : f32[2]
    %3 = exp(%2) : f32[2]
    return %3
  })",
                    claims_none),
            "graph(%0: f32[2]) {\n  %1 = exp(%0) : f32[2]\n  %2 = exp(%1) : f32[2]\n  return %2\n}\n");
}

}  // namespace
}  // namespace transom
