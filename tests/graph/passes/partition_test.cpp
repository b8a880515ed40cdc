// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/partition.h"

#include <gtest/gtest.h>

#include "graph/ops/movement/collectives.h"
#include "support/message.h"
#include "transom/gradients.h"

namespace transom {
namespace {

using test::message_of;

// The operations of each piece, with the order of the collective behind it.
std::vector<std::string> pieces_of(std::string_view text) {
  const Graph graph = parse_graph(text);
  std::vector<std::string> result;
  for (const Partition& piece : partition_graph(graph)) {
    std::string words;
    for (const auto& node : piece.nodes) words += std::string(node->operation->name) + " ";
    if (piece.collective) words += "-> " + std::to_string(piece.collective->attributes.get_int("order"));
    result.push_back(words);
  }
  return result;
}

TEST(PartitionGraph, StartsEachAsSoonAsItsInputIsThere) {
  EXPECT_EQ(pieces_of(R"(graph(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = sin(%1) : f32[4]
    %3 = cos(%1) : f32[4]
    %4 = all_reduce(%3) {order=0} : f32[4]
    %5 = all_reduce(%2) {order=1} : f32[4]
    %6 = neg(%4) : f32[4]
    %7 = add(%6, %5) : f32[4]
    return %7
  })"),
            (std::vector<std::string>{"exp cos -> 0", "sin -> 1", "neg add "}));
}

TEST(PartitionGraph, TakesInputsOfTheGraphAsTheyAre) {
  EXPECT_EQ(pieces_of(R"(graph(%0: f32[4]) {
    %1 = all_reduce(%0) {order=0} : f32[4]
    return %1
  })"),
            (std::vector<std::string>{"-> 0", ""}));
}

TEST(PartitionGraph, LetsOneFollowAnother) {
  EXPECT_EQ(pieces_of(R"(graph(%0: f32[4]) {
    %1 = all_reduce(%0) {order=0} : f32[4]
    %2 = exp(%1) : f32[4]
    %3 = all_reduce(%2) {order=1} : f32[4]
    return %3
  })"),
            (std::vector<std::string>{"-> 0", "exp -> 1", ""}));
}

// Gradients run collectives in the opposite order, and what uses the gradients comes behind them.
TEST(PartitionGraph, TakesForwardAndBackwardPasses) {
  const Tensor x = make_input({DType::kFloat32, {4}});
  const Tensor y = all_reduce(exp(all_reduce(x, 0, {0, 1})), 1, {0, 1});
  const Tensor dx = all_reduce(gradients(reduce_sum(y, {0}), {x})[0], kAfterBackward);
  std::vector<int64_t> orders;
  for (const Partition& partition : partition_graph(make_graph({dx, y}, {x})))
    if (partition.collective) orders.push_back(partition.collective->attributes.get_int("order"));
  EXPECT_EQ(orders, (std::vector<int64_t>{0, 1, kBackwardOrder - 1, kBackwardOrder, kAfterBackward}));
}

TEST(PartitionGraph, RefusesAnOrderAgainstTheFlowOfData) {
  const std::string message = message_of([] {
    pieces_of(R"(graph(%0: f32[4]) {
      %1 = all_reduce(%0) {order=1} : f32[4]
      %2 = all_reduce(%1) {order=0} : f32[4]
      return %2
    })");
  });
  EXPECT_NE(message.find("depends on a later one"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
