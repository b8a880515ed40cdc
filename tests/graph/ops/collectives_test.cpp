// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/movement/collectives.h"

#include <gtest/gtest.h>

#include "support/evaluation.h"
#include "support/message.h"
#include "transom/gradients.h"

namespace transom {
namespace {

using test::message_of;

Tensor rows(int64_t count) { return make_input({DType::kFloat32, {count, 3}}); }

std::string name_of_gradient(const Tensor& x, const Tensor& y) {
  const Tensor dx = gradients({y}, {make_input(y.type())}, {x})[0];
  EXPECT_EQ(dx.type(), x.type());
  return std::string(dx.node()->operation->name);
}

TEST(Collectives, SplitAndJoinRowsByProcess) {
  const Tensor x = rows(8);
  EXPECT_EQ(all_to_all(x, 4, 0).shape(), (Shape{8, 3}));
  EXPECT_EQ(name_of_gradient(x, all_to_all(x, 4, 0)), "all_to_all");
  EXPECT_THROW(all_to_all(rows(7), 4, 0), Error);
  EXPECT_EQ(all_gather(x, 4, 0).shape(), (Shape{32, 3}));
  EXPECT_EQ(name_of_gradient(x, all_gather(x, 4, 0)), "reduce_scatter");
  EXPECT_EQ(reduce_scatter(x, 4, 0).shape(), (Shape{2, 3}));
  EXPECT_EQ(name_of_gradient(x, reduce_scatter(x, 4, 0)), "all_gather");
  EXPECT_THROW(reduce_scatter(rows(7), 4, 0), Error);
}

TEST(Collectives, GoToAnotherProcessAndBack) {
  const Tensor x = rows(8), y = collective_permute(x, 4, 1, {5, 3}, 0);
  EXPECT_EQ(y.shape(), (Shape{5, 3}));
  const Tensor dx = gradients({y}, {make_input(y.type())}, {x})[0];
  EXPECT_EQ(dx.type(), x.type());
  EXPECT_EQ(dx.node()->attributes.get_int("shift"), 3);
  EXPECT_EQ(collective_permute(x, 4, 1, {5, 3}, 0, {}, rows(1)).node()->inputs.size(), 2u);
  EXPECT_THROW(collective_permute(x, 4, 4, {8, 3}, 0), Error);
  EXPECT_THROW(collective_permute(x, 4, 1, {0, 3}, 0), Error);
  EXPECT_THROW(collective_permute(x, 4, 0, {5, 3}, 0), Error);
}

TEST(Collectives, CheckTheirGroup) {
  EXPECT_EQ(all_reduce(rows(2), 0, {1, 3}).node()->attributes.get_ints("group"), (Axes{1, 3}));
  EXPECT_FALSE(all_reduce(rows(2), 0).node()->attributes.has("group"));
  EXPECT_THROW(all_reduce(rows(2), 0, {3, 1}), Error);
  EXPECT_THROW(all_reduce(rows(2), 0, {-1, 1}), Error);
  EXPECT_THROW(all_to_all(rows(8), 4, 0, {0, 1}), Error);
}

// One process cannot do what several do together, and says so.
TEST(Collectives, OfSeveralProcessesNeedThem) {
  const Tensor y = all_to_all(rows(8), 4, 0);
  const Node& node = *y.node();
  const std::string message = message_of([&] { node.operation->decompose(node.inputs, node.attributes); });
  EXPECT_NE(message.find("a collective of 4 processes"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
