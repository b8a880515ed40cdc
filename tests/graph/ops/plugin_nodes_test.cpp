// SPDX-License-Identifier: Apache-2.0
// What the host computes for a plugin, as the plugin asks for it.
#include "graph/ops/plugin_nodes.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <thread>

namespace transom {
namespace {

constexpr int64_t kThree[] = {3}, kTwo[] = {2};

struct Asked {
  transom_status status;
  std::string text;
};

// op(x, y) of three elements of a type.
template <typename Element>
Asked ask(const char* op, int32_t dtype, std::array<Element, 3> x, std::array<Element, 3> y, std::array<Element, 3>& z,
          const int64_t* shape = kThree, std::vector<int32_t> inputs = {0, 1}) {
  const transom_value value{dtype, 1, shape, -1, 0};
  const transom_value values[] = {{dtype, 1, kThree, -1, 0}, value, {dtype, 1, kThree, -1, 0}};
  const int32_t output = 2;
  const transom_node node{.struct_size = sizeof(transom_node),
                          .op = op,
                          .scope = "layer.3",
                          .inputs = inputs.data(),
                          .inputs_count = inputs.size(),
                          .outputs = &output,
                          .outputs_count = 1,
                          .attributes = nullptr,
                          .attributes_count = 0,
                          .region = nullptr};
  const void* from[] = {x.data(), y.data()};
  void* to[] = {z.data()};
  transom_error error{};
  const transom_status status = evaluate_on_host(&node, values, 3, from, to, &error);
  return {status, error.text};
}

TEST(EvaluateOnHost, ComputesAPrimitiveOfItsTypes) {
  std::array<double, 3> sum{};
  EXPECT_EQ(ask<double>("add", TRANSOM_FLOAT64, {1e300, 2, -0.5}, {1e300, 0.25, 0.5}, sum).status, TRANSOM_OK);
  EXPECT_EQ(sum, (std::array<double, 3>{2e300, 2.25, 0}));
  std::array<int64_t, 3> product{};
  EXPECT_EQ(ask<int64_t>("mul", TRANSOM_INT64, {int64_t{1} << 40, -3, 0}, {3, 5, 7}, product).status, TRANSOM_OK);
  EXPECT_EQ(product, (std::array<int64_t, 3>{int64_t{3} << 40, -15, 0}));
  // Rounded to the element type: bf16 has eight bits.
  std::array<uint16_t, 3> rounded{};
  EXPECT_EQ(ask<uint16_t>("add", TRANSOM_BFLOAT16, {0x3F80, 0x3F80, 0}, {0x3B80, 0x3C00, 0}, rounded).status,
            TRANSOM_OK);
  EXPECT_EQ(rounded, (std::array<uint16_t, 3>{0x3F80, 0x3F81, 0}));  // 1 + 2^-8 is a tie, and goes to even
}

TEST(EvaluateOnHost, ReadsAndWritesAtAnyAddress) {
  std::array<std::byte, 64> memory{};
  const float x[] = {1, 2, 3};
  std::memcpy(memory.data() + 1, x, sizeof x);
  const transom_value values[] = {{TRANSOM_FLOAT32, 1, kThree, -1, 0}, {TRANSOM_FLOAT32, 1, kThree, -1, 0}};
  const int32_t indices[] = {0, 1};
  const transom_node node{sizeof(transom_node), "neg", nullptr, &indices[0], 1, &indices[1], 1, nullptr, 0, nullptr};
  const void* from[] = {memory.data() + 1};
  void* to[] = {memory.data() + 31};
  transom_error error{};
  ASSERT_EQ(evaluate_on_host(&node, values, 2, from, to, &error), TRANSOM_OK) << error.text;
  float y[3];
  std::memcpy(y, memory.data() + 31, sizeof y);
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[2], -3);
}

TEST(EvaluateOnHost, SaysWhichOperationsItKnows) {
  for (const char* op : {"add", "random_bits", "top_k", "dot_general"}) EXPECT_TRUE(evaluates_on_host(op)) << op;
  for (const char* op : {"softmax", "linear", "no_such_operation", ""}) EXPECT_FALSE(evaluates_on_host(op)) << op;
}

TEST(EvaluateOnHost, RefusesWhatBreaksTheInterface) {
  std::array<float, 3> z{7, 7, 7};
  const std::array<float, 3> x{1, 2, 3};
  EXPECT_EQ(ask<float>("softmax", TRANSOM_FLOAT32, x, x, z).status, TRANSOM_UNSUPPORTED);
  EXPECT_EQ(ask<float>("nothing", TRANSOM_FLOAT32, x, x, z).status, TRANSOM_UNSUPPORTED);
  EXPECT_EQ(ask<float>("add", TRANSOM_FLOAT32, x, x, z, kTwo).status, TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(ask<float>("add", TRANSOM_FLOAT32, x, x, z, kThree, {0, 3}).status, TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(ask<float>("add", TRANSOM_FLOAT32, x, x, z, kThree, {-1, 0}).status, TRANSOM_INVALID_ARGUMENT);
  const Asked unknown = ask<float>("add", 77, x, x, z);
  EXPECT_EQ(unknown.status, TRANSOM_INVALID_ARGUMENT);
  EXPECT_NE(unknown.text.find("77"), std::string::npos) << unknown.text;
  EXPECT_EQ(z, (std::array<float, 3>{7, 7, 7})) << "outputs stay untouched";
}

TEST(EvaluateOnHost, AnswersThreadsAtOnce) {
  std::vector<std::jthread> threads;
  std::array<int, 4> wrong{};
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 200; ++i) {
        std::array<float, 3> z{};
        const auto a = static_cast<float>(t), b = static_cast<float>(i);
        ask<float>("sub", TRANSOM_FLOAT32, {a, b, 1}, {b, a, 1}, z);
        wrong[t] += z != std::array<float, 3>{a - b, b - a, 0};
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

}  // namespace
}  // namespace transom
