// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/order_collectives.h"

#include <gtest/gtest.h>

#include "graph/ir/graph.h"
#include "graph/passes/partition.h"
#include "transom/ops.h"

namespace transom {
namespace {

Tensor exchanged(const char* kind, const Tensor& x, int64_t number, std::vector<std::pair<const char*, int64_t>> more) {
  Attributes attributes{{"order", number}, {"processes", int64_t{2}}};
  for (const auto& [name, value] : more) attributes.set(name, value);
  return make_tensor(find_operation(kind), {x}, attributes);
}
Tensor gathered(const Tensor& x, int64_t number, int64_t unit) {
  return exchanged("all_gather", x, number, {{"unit", unit}, {"late", unit}});
}
Tensor scattered(const Tensor& x, int64_t number, int64_t unit) {
  return exchanged("reduce_scatter", x, number, {{"unit", unit}});
}
int64_t order_of(const Tensor& tensor) { return tensor.node()->attributes.get_int("order"); }
Tensor input(const Shape& shape) { return make_input({DType::kFloat32, shape}); }

// Per partition: how many nodes, and the order of the collective behind them.
std::vector<std::pair<size_t, int64_t>> partitions_of(const std::vector<Tensor>& outputs) {
  std::vector<std::pair<size_t, int64_t>> result;
  for (const Partition& partition : partition_graph(make_graph(outputs)))
    result.emplace_back(partition.nodes.size(),
                        partition.collective ? partition.collective->attributes.get_int("order") : -1);
  return result;
}

TEST(LayerOfScope, EndsAtTheFirstNumber) {
  EXPECT_EQ(layer_of_scope("model.layers.13.self_attn.q_proj"), "model.layers.13");
  EXPECT_EQ(layer_of_scope("encoder.block.0.layer.1.x"), "encoder.block.0");
  EXPECT_EQ(layer_of_scope("h.7"), "h.7");
  EXPECT_EQ(layer_of_scope("lm_head"), "");
  EXPECT_EQ(layer_of_scope("a.b2.c"), "");
  EXPECT_EQ(layer_of_scope(""), "");
}

TEST(CollectiveUnits, AreLayersAndElseOfABoundedSize) {
  CollectiveUnits units;
  EXPECT_EQ(units.current(), -1);
  EXPECT_EQ(units.next("embed", 1 << 20), 0);
  EXPECT_EQ(units.next("h.0.a", 1 << 30), 1);
  EXPECT_EQ(units.next("h.0.b", 1 << 30), 1);
  EXPECT_EQ(units.next("h.1.a", 1), 2);
  EXPECT_EQ(units.next("norm", 1), 3);
  EXPECT_EQ(units.next("head", 40 << 20), 3);
  EXPECT_EQ(units.next("other", 1), 4);
  EXPECT_EQ(units.current(), 4);
}

// Three layers of two weights, and sums of values between: the next layer is asked for before this one computes.
TEST(OrderCollectives, GathersAUnitAhead) {
  Tensor x = input({4, 4});
  std::vector<Tensor> gathers, sums;
  int64_t number = 0;
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int i = 0; i < 2; ++i) {
      gathers.push_back(gathered(input({2, 4}), number++, layer));
      x = matmul(x, gathers.back());
    }
    sums.push_back(x = exchanged("all_reduce", x, number++, {}));
  }
  order_collectives({x});
  std::vector<int64_t> of_gathers, of_sums;
  for (const Tensor& each : gathers) of_gathers.push_back(order_of(each));
  for (const Tensor& each : sums) of_sums.push_back(order_of(each));
  EXPECT_EQ(of_gathers, (std::vector<int64_t>{0, 1, 2, 3, 5, 6}));
  EXPECT_EQ(of_sums, (std::vector<int64_t>{4, 7, 8}));
  // The second layer travels while the first is computed, which is one program.
  EXPECT_EQ(partitions_of({x}), (std::vector<std::pair<size_t, int64_t>>{
                                    {0, 0}, {0, 1}, {0, 2}, {0, 3}, {2, 4}, {0, 5}, {0, 6}, {2, 7}, {2, 8}, {0, -1}}));
}

// What is gathered of a result of another collective waits for that one.
TEST(OrderCollectives, GathersNothingBeforeItIsThere) {
  const Tensor first = gathered(input({2, 4}), 0, 0);
  const Tensor sum = exchanged("all_reduce", matmul(input({4, 4}), first), 1, {});
  const Tensor second = gathered(matmul(input({2, 4}), sum), 2, 1), third = gathered(input({2, 4}), 3, 2);
  const Tensor y = matmul(matmul(matmul(sum, first), second), third);
  order_collectives({y});
  EXPECT_LT(order_of(first), order_of(sum));
  EXPECT_LT(order_of(sum), order_of(second));
  EXPECT_LT(order_of(third), order_of(sum));  // it is the second unit now
  partitions_of({y});
}

TEST(OrderCollectives, SumsGradientsOfALayerTogether) {
  const Tensor x = input({4, 4});
  const Tensor a = exp(x), between = exchanged("all_reduce", tanh(x), 1, {}), b = exp(between), c = sin(b);
  const Tensor of_a = scattered(a, 0, 5), of_b = scattered(b, 2, 5), of_c = scattered(c, 3, 6);
  order_collectives({of_a, of_b, of_c});
  EXPECT_EQ(order_of(between), 0);
  EXPECT_EQ(order_of(of_a), 1);
  EXPECT_EQ(order_of(of_b), 2);
  EXPECT_EQ(order_of(of_c), 3);
  EXPECT_EQ(of_a.node()->attributes.get_int("unit"), of_b.node()->attributes.get_int("unit"));
  EXPECT_NE(of_a.node()->attributes.get_int("unit"), of_c.node()->attributes.get_int("unit"));
  EXPECT_EQ(partitions_of({of_a, of_b, of_c}),
            (std::vector<std::pair<size_t, int64_t>>{{1, 0}, {2, 1}, {0, 2}, {1, 3}, {0, -1}}));
}

// Scattered within a server and then summed between servers: first all of the one, then all of the other.
TEST(OrderCollectives, SumsInStepsWhereOneNeedsAnother) {
  std::vector<Tensor> scatters, sums;
  for (int64_t i = 0; i < 3; ++i) {
    scatters.push_back(scattered(exp(input({4, 4})), 2 * i, 0));
    sums.push_back(exchanged("all_reduce", scatters.back() * 0.5, 2 * i + 1, {{"unit", 0}}));
  }
  const Tensor norm = exchanged("all_reduce", sums[0] + sums[1], 6, {});
  order_collectives({norm, sums[2]});
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(order_of(scatters[static_cast<size_t>(i)]), i);
    EXPECT_EQ(order_of(sums[static_cast<size_t>(i)]), 3 + i);
  }
  EXPECT_EQ(order_of(norm), 6);
  EXPECT_EQ(partitions_of({norm, sums[2]}).size(), 8U);
}

// A sum that something else needs before its unit is over starts then.
TEST(OrderCollectives, SumsBeforeTheFirstThatNeedsIt) {
  const Tensor a = scattered(exp(input({4, 4})), 0, 0);
  const Tensor early = exchanged("all_reduce", a * 2.0, 1, {});
  const Tensor b = scattered(exp(input({4, 4})), 2, 0);
  order_collectives({early, b});
  EXPECT_EQ(order_of(a), 0);
  EXPECT_EQ(order_of(early), 1);
  EXPECT_EQ(order_of(b), 2);
  EXPECT_EQ(partitions_of({early, b}).size(), 4U);
}

}  // namespace
}  // namespace transom
