// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/node.h"

#include <gtest/gtest.h>

#include <thread>

#include "graph/ir/graph.h"
#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::message_of;

Tensor f32_leaf(Shape shape) { return make_input({DType::kFloat32, std::move(shape)}); }

TEST(NodeErrors, CarryTheModulesPathAndBothShapes) {
  const ModuleScope encoder("encoder"), layer("layer.3");
  const Tensor x = f32_leaf({2, 3}), y = f32_leaf({4, 5});
  EXPECT_EQ(message_of([&] { add(x, y); }), "encoder.layer.3: add: shapes [2, 3] and [4, 5] do not fit together");
  const std::string text = message_of([&] { linear(x, f32_leaf({7, 4})); });
  EXPECT_TRUE(text.starts_with("encoder.layer.3: linear: ")) << text;
  EXPECT_NE(text.find("[2, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("[7, 4]"), std::string::npos) << text;
  EXPECT_EQ(message_of([&] { softmax(reduce_sum(x, {2})); }),
            "encoder.layer.3: reduce_sum: axis 2 does not fit a tensor of rank 2");
}

TEST(NodeErrors, HaveNoPrefixOutsideModules) {
  EXPECT_EQ(message_of([] { add(f32_leaf({2}), f32_leaf({3})); }), "add: shapes [2] and [3] do not fit together");
  EXPECT_EQ(message_of([] {
              add(f32_leaf({2}), make_input({DType::kInt64, {2}}));
            }),
            "add: expected equal element types, found f32[2] and i64[2]");
}

TEST(NodeErrors, RefuseEmptyTensors) {
  EXPECT_EQ(message_of([] { exp(Tensor()); }), "exp: an input is an empty Tensor");
  EXPECT_THROW(Tensor().shape(), Error);
}

TEST(NodeErrors, RefuseTensorsThatNoMemoryHolds) {
  const int64_t huge = int64_t{1} << 32;
  EXPECT_THROW(make_input({DType::kFloat32, {-1}}), Error);
  EXPECT_THROW(make_input({DType::kFloat32, {huge, huge, huge}}), Error);
  EXPECT_THROW(broadcast_to(f32_leaf({1, 1}), {huge, huge}), Error);
  EXPECT_THROW(make_tensor(find_operation("reshape"), {f32_leaf({6})}, {{"shape", Shape{-2, -3}}}), Error);
}

TEST(NodeErrors, RefuseRegionsWhereTheyDoNotFit) {
  const Tensor inner = f32_leaf({3}), x = f32_leaf({3});
  const auto region = std::make_shared<Graph>(make_graph({exp(inner)}, {inner}));
  EXPECT_THROW(make_node(find_operation("exp"), {x}, {}, region), Error);
  EXPECT_THROW(make_node(find_operation("fusion"), {}, {}, region), Error);
  EXPECT_THROW(make_node(find_operation("fusion"), {f32_leaf({4})}, {}, region), Error);
  EXPECT_THROW(make_node(find_operation("fusion"), {x}), Error);
}

TEST(ModuleScopes, NestAndEnd) {
  {
    const ModuleScope outer("a");
    {
      const ModuleScope inner("b");
      EXPECT_EQ(*exp(f32_leaf({1})).node()->scope, "a.b");
    }
    {
      const ModuleScope whole("a.c");  // a path from the top, as layers know theirs
      EXPECT_EQ(*exp(f32_leaf({1})).node()->scope, "a.c");
    }
    {
      const ModuleScope other("ab");
      EXPECT_EQ(*exp(f32_leaf({1})).node()->scope, "a.ab");
    }
    EXPECT_EQ(*exp(f32_leaf({1})).node()->scope, "a");
  }
  EXPECT_EQ(*exp(f32_leaf({1})).node()->scope, "");
}

TEST(Nodes, RememberWhatGradientsNeed) {
  Tensor w = f32_leaf({3});
  const Tensor x = f32_leaf({3});
  w.set_requires_grad();
  EXPECT_TRUE((w * x).node()->saves_for_backward);
  EXPECT_FALSE((x * x).node()->saves_for_backward);
  EXPECT_FALSE(make_tensor(find_operation("stop_gradient"), {w}).requires_grad());
  EXPECT_FALSE(arg_max(w, 0).requires_grad());  // integers carry no gradient
  const NoGradient off;
  EXPECT_FALSE((w * x).node()->saves_for_backward);
}

TEST(Nodes, ReleaseLongChainsWithoutRecursion) {
  Tensor x = f32_leaf({});
  for (int i = 0; i < 1'000'000; ++i) x = neg(x);
  x = Tensor();
}

TEST(Nodes, ReleaseLongChainsThatBranch) {
  Tensor x = f32_leaf({}), y = x;
  for (int i = 0; i < 200'000; ++i) {
    const Tensor sum = x + y;
    y = x;
    x = sum;
  }
  const Tensor kept = y;
  x = y = Tensor();
  EXPECT_EQ(kept.node()->operation->name, "add");
}

TEST(Nodes, GetRisingNumbersOnAllThreads) {
  std::vector<uint64_t> numbers[2];
  std::thread threads[2];
  for (int t = 0; t < 2; ++t)
    threads[t] = std::thread([&numbers, t] {
      const Tensor x = f32_leaf({});
      for (int i = 0; i < 1000; ++i) numbers[t].push_back(neg(x).node()->sequence);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> all(numbers[0]);
  all.insert(all.end(), numbers[1].begin(), numbers[1].end());
  for (const auto& list : numbers) EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace transom
