// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/node_costs.h"

#include <gtest/gtest.h>

#include "graph/ir/graph.h"

namespace transom {
namespace {

// The last node of a graph.
std::shared_ptr<Node> node_of(std::string_view text) { return parse_graph(text).nodes.back(); }

TEST(NodeCosts, AreThoseOfTheRecord) {
  const auto linear = node_of(R"(graph(%0: f32[8, 4], %1: f32[3, 4]) {
    %2 = linear(%0, %1) : f32[8, 3]
    return %2
  })");
  EXPECT_EQ(operations_of(*linear), 2.0 * 8 * 4 * 3);
  EXPECT_EQ(arithmetic_of(*linear), 2.0 * 8 * 4 * 3);
  EXPECT_EQ(bytes_of(*linear), 4.0 * (8 * 4 + 3 * 4 + 8 * 3));
  EXPECT_EQ(category_of(*linear), Category::kProducts);

  const auto gather = node_of(R"(graph(%0: f32[1000, 4], %1: i64[3]) {
    %2 = gather(%0, %1) {axis=0} : f32[3, 4]
    return %2
  })");
  EXPECT_EQ(operations_of(*gather), 0);
  EXPECT_EQ(bytes_of(*gather), 2.0 * 4 * 3 * 4);
  EXPECT_EQ(category_of(*gather), Category::kMovement);

  const auto reshape = node_of(R"(graph(%0: f32[8, 4]) {
    %1 = reshape(%0) {shape=[32]} : f32[32]
    return %1
  })");
  EXPECT_EQ(bytes_of(*reshape), 0);
}

// softmax: a largest element, its difference, exp, a sum and a division for each element.
TEST(NodeCosts, OfACompositeAreThoseOfItsDecomposition) {
  const auto softmax = node_of(R"(graph(%0: f32[8, 4]) {
    %1 = softmax(%0) : f32[8, 4]
    return %1
  })");
  EXPECT_EQ(operations_of(*softmax), 5.0 * 8 * 4);
  EXPECT_EQ(arithmetic_of(*softmax), 0);
  EXPECT_EQ(category_of(*softmax), Category::kRows);
}

TEST(NodeCosts, OfARegionAreThoseOfItsNodes) {
  const auto fusion = node_of(R"(graph(%0: f32[16]) {
    %1, %2 = fusion(%0) region graph(%0: f32[16]) {
      %1 = exp(%0) : f32[16]
      %2 = reduce_sum(%1) {axes=[0]} : f32[]
      return %1, %2
    } : f32[16], f32[]
    return %1, %2
  })");
  EXPECT_EQ(operations_of(*fusion), 32);
  EXPECT_EQ(category_of(*fusion), Category::kRows);
}

}  // namespace
}  // namespace transom
