// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/finite_differences.h"

namespace transom {
namespace {

using test::evaluate;
using test::Leaf;
using test::leaf;

size_t count(const Graph& graph, std::string_view name) {
  size_t result = 0;
  for (const auto& node : graph.nodes) result += node->operation->name == name;
  return result;
}

Tensor block(const Tensor& x, const Tensor& w) { return tanh(x * w) * exp(x); }

class Checkpoint : public testing::Test {
 protected:
  const Leaf x_ = leaf({3}, {0.5, -1, 2}), w_ = leaf({3}, {1, 2, 3});
  Tensor checkpointed() const {
    return checkpoint([](const std::vector<Tensor>& in) { return block(in[0], in[1]); }, {x_.tensor, w_.tensor});
  }
};

TEST_F(Checkpoint, ComputesWhatItsFunctionComputes) {
  EXPECT_EQ(evaluate(checkpointed(), {x_, w_}), evaluate(block(x_.tensor, w_.tensor), {x_, w_}));
}

TEST_F(Checkpoint, HasTheGradientsOfItsFunction) {
  const auto plain = gradients(sum(block(x_.tensor, w_.tensor)), {x_.tensor, w_.tensor});
  const auto found = gradients(sum(checkpointed()), {x_.tensor, w_.tensor});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(evaluate(found[i], {x_, w_}), evaluate(plain[i], {x_, w_}));
  std::mt19937_64 random(3);
  test::expect_central_differences({checkpointed()}, {x_, w_}, random);
}

TEST_F(Checkpoint, GivesGradientsToWhatItsFunctionCaptured) {
  const Tensor captured = w_.tensor * w_.tensor;  // not a leaf, and not yet computed
  const Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return block(in[0], captured); }, {x_.tensor});
  const Tensor plain = block(x_.tensor, captured);
  EXPECT_EQ(evaluate(gradients(sum(y), {w_.tensor})[0], {x_, w_}),
            evaluate(gradients(sum(plain), {w_.tensor})[0], {x_, w_}));
}

TEST_F(Checkpoint, GoesBackThroughACopyBehindABarrier) {
  const Tensor y = checkpointed();
  const Tensor gradient = gradients(sum(y), {x_.tensor})[0];
  const Graph graph = make_graph({y, gradient}, {x_.tensor, w_.tensor});
  verify(graph);
  EXPECT_EQ(count(graph, "checkpoint"), 1u);
  EXPECT_EQ(count(graph, "optimization_barrier"), 1u);
  EXPECT_EQ(count(graph, "tanh"), 1u);  // the copy; the forward one is inside the region
  // Nothing of the backward pass but the copy uses the forward pass's values: only the leaves and the gradient come in.
  for (const auto& node : graph.nodes)
    for (const Tensor& input : node->inputs) EXPECT_FALSE(input.same_as(y));
}

TEST_F(Checkpoint, KeepsNothingButItsInputs) {
  std::weak_ptr<Node> inside;
  const Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        const Tensor middle = exp(in[0]);
        inside = middle.node();
        return middle * middle;
      },
      {x_.tensor});
  EXPECT_TRUE(inside.expired());
  ASSERT_EQ(y.node()->inputs.size(), 1u);
  EXPECT_TRUE(y.node()->inputs[0].same_as(x_.tensor));
  for (const Tensor& input : y.node()->region->inputs) EXPECT_TRUE(is_input(*input.node()));
}

TEST_F(Checkpoint, Nests) {
  const auto twice = [](const std::vector<Tensor>& in) {
    const auto inner = [](const std::vector<Tensor>& i) { return tanh(exp(i[0])); };
    return checkpoint(inner, in) * in[0];
  };
  std::mt19937_64 random(3);
  test::expect_central_differences({checkpoint(twice, {x_.tensor})}, {x_}, random);
}

TEST_F(Checkpoint, HasSecondGradients) {
  std::vector<Leaf> leaves{x_, w_};
  std::mt19937_64 random(3);
  const test::RandomGradients first = test::random_gradients({checkpointed()}, leaves, random);
  leaves.insert(leaves.end(), first.cotangents.begin(), first.cotangents.end());
  test::expect_central_differences(first.gradients, leaves, random);
}

TEST_F(Checkpoint, MayReturnAnInputOrAConstant) {
  const Tensor same = checkpoint([](const std::vector<Tensor>& in) { return in[0]; }, {x_.tensor});
  EXPECT_EQ(evaluate(gradients(sum(same), {x_.tensor})[0], {x_}), (std::vector<double>{1, 1, 1}));
  const Tensor fixed = checkpoint([](const std::vector<Tensor>&) { return zeros({3}, DType::kFloat64); }, {x_.tensor});
  EXPECT_EQ(evaluate(gradients(sum(fixed), {x_.tensor})[0], {x_}), (std::vector<double>{0, 0, 0}));
}

TEST_F(Checkpoint, RunsNothingWhileItTraces) {
  static int seen;
  seen = 0;
  set_node_observer([](const std::shared_ptr<Node>&) { ++seen; });
  const Tensor y = checkpointed();
  set_node_observer(nullptr);
  EXPECT_EQ(seen, 1);  // the checkpoint itself
}

// What is detached in the region stays a constant when the region is differentiated.
TEST_F(Checkpoint, KeepsWhatItsFunctionDetaches) {
  Tensor x = x_.tensor, w = w_.tensor;
  x.set_requires_grad();
  w.set_requires_grad();
  const auto lengths = [](const std::vector<Tensor>& in) {
    const Tensor length = exp(in[0] * in[1]).detach();
    return in[0] * in[1] * length;
  };
  const std::vector<Tensor> sources{x, w}, plain = gradients(sum(lengths(sources)), sources),
                                           recomputed = gradients(sum(checkpoint(lengths, sources)), sources);
  for (size_t i = 0; i < sources.size(); ++i)
    EXPECT_EQ(evaluate(recomputed[i], {x_, w_}), evaluate(plain[i], {x_, w_})) << i;
}

TEST_F(Checkpoint, RemembersForItsParameters) {
  Tensor w = make_input({DType::kFloat64, {3}});
  w.set_requires_grad();
  const Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return in[0] * w; }, {x_.tensor});
  EXPECT_TRUE(y.node()->saves_for_backward);
}

}  // namespace
}  // namespace transom
