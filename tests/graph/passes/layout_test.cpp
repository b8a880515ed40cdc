// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

bool claims_all(const Node&) { return true; }
std::string laid_out(std::string_view text, const Supports& supports = claims_all) {
  return print_graph(assign_layout(parse_graph(text), supports));
}

// A block of a ResNet: two convolutions, a scale of each channel, a residual, pooling.
TEST(Layout, KeepsChannelsLastBetweenConvolutions) {
  EXPECT_EQ(laid_out(R"(graph(%0: f32[1, 3, 8, 8], %1: f32[4, 3, 3, 3], %2: f32[4, 4, 3, 3], %3: f32[4]) {
    %4 = convolution(%0, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
    %5 = reshape(%3) {shape=[1, 4, 1, 1]} : f32[1, 4, 1, 1]
    %6 = broadcast(%5) {shape=[1, 4, 8, 8]} : f32[1, 4, 8, 8]
    %7 = mul(%4, %6) : f32[1, 4, 8, 8]
    %8 = max_pool(%7) {high=[0, 0], low=[0, 0], strides=[1, 1], window=[2, 2]} : f32[1, 4, 7, 7]
    %9 = convolution(%8, %2) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 7, 7]
    %10 = add(%9, %8) : f32[1, 4, 7, 7]
    %11 = reduce_sum(%10) {axes=[2, 3]} : f32[1, 4]
    return %11
  })"),
            R"(graph(%0: f32[1, 3, 8, 8], %1: f32[4, 3, 3, 3], %2: f32[4, 4, 3, 3], %3: f32[4]) {
  %4 = permute(%0) {permutation=[0, 2, 3, 1]} : f32[1, 8, 8, 3]
  %5 = channels_last_convolution(%4, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 8, 8, 4]
  %6 = reshape(%3) {shape=[1, 1, 1, 4]} : f32[1, 1, 1, 4]
  %7 = broadcast(%6) {shape=[1, 8, 8, 4]} : f32[1, 8, 8, 4]
  %8 = mul(%5, %7) : f32[1, 8, 8, 4]
  %9 = max_pool(%8) {channels_last=1, high=[0, 0], low=[0, 0], strides=[1, 1], window=[2, 2]} : f32[1, 7, 7, 4]
  %10 = channels_last_convolution(%9, %2) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 7, 7, 4]
  %11 = add(%10, %9) : f32[1, 7, 7, 4]
  %12 = channels_last_reduce_sum(%11) : f32[1, 4]
  return %12
}
)");
}

// Where the device does not claim them, and over other axes, sums see their channels first.
TEST(Layout, SumsOverAllPlacesAlone) {
  const auto sum = [](const std::string& axes, const std::string& type, const Supports& supports) {
    return laid_out(R"(graph(%0: f32[1, 3, 8, 8], %1: f32[4, 3, 3, 3], %2: f32[4, 4, 3, 3]) {
    %3 = convolution(%0, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
    %4 = convolution(%3, %2) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
    %5 = reduce_sum(%4) {axes=)" +
                        axes + "} : " + type + "\n    return %5\n  }",
                    supports);
  };
  const auto claims_no_sums = [](const Node& node) { return node.operation->name != "channels_last_reduce_sum"; };
  EXPECT_NE(sum("[2, 3]", "f32[1, 4]", claims_all).find("= channels_last_reduce_sum("), std::string::npos);
  EXPECT_NE(sum("[2, 3]", "f32[1, 4]", claims_no_sums).find("= reduce_sum("), std::string::npos);
  EXPECT_NE(sum("[3]", "f32[1, 4, 8]", claims_all).find("= reduce_sum("), std::string::npos);
  EXPECT_NE(sum("[0, 2, 3]", "f32[4]", claims_all).find("= reduce_sum("), std::string::npos);
}

// As in ConvNeXt, and in the embedding of patches.
TEST(Layout, CancelsTheModelsOwnPermutes) {
  EXPECT_EQ(laid_out(R"(graph(%0: f32[1, 6, 6, 4], %1: f32[4, 1, 3, 3], %2: f32[8, 4, 2, 2]) {
    %3 = permute(%0) {permutation=[0, 3, 1, 2]} : f32[1, 4, 6, 6]
    %4 = convolution(%3, %1) {dilations=[1, 1], groups=4, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 6, 6]
    %5 = slice(%4) {limits=[1, 4, 6, 4], starts=[0, 0, 0, 2], strides=[1, 1, 2, 1]} : f32[1, 4, 3, 2]
    %6 = pad(%5) {high=[0, 0, 1, 0], low=[0, 0, 0, 2], value=0.0} : f32[1, 4, 4, 4]
    %7 = concatenate(%6, %6) {axis=2} : f32[1, 4, 8, 4]
    %8 = convolution(%7, %2) {dilations=[1, 1], groups=1, high=[0, 0], low=[0, 0], strides=[2, 2]} : f32[1, 8, 4, 2]
    %9 = reshape(%8) {shape=[1, 8, 8]} : f32[1, 8, 8]
    %10 = permute(%9) {permutation=[0, 2, 1]} : f32[1, 8, 8]
    return %10
  })"),
            R"(graph(%0: f32[1, 6, 6, 4], %1: f32[4, 1, 3, 3], %2: f32[8, 4, 2, 2]) {
  %3 = channels_last_convolution(%0, %1) {dilations=[1, 1], groups=4, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 6, 6, 4]
  %4 = slice(%3) {limits=[1, 6, 4, 4], starts=[0, 0, 2, 0], strides=[1, 2, 1, 1]} : f32[1, 3, 2, 4]
  %5 = pad(%4) {high=[0, 1, 0, 0], low=[0, 0, 2, 0], value=0.0} : f32[1, 4, 4, 4]
  %6 = concatenate(%5, %5) {axis=1} : f32[1, 8, 4, 4]
  %7 = channels_last_convolution(%6, %2) {dilations=[1, 1], groups=1, high=[0, 0], low=[0, 0], strides=[2, 2]} : f32[1, 4, 2, 8]
  %8 = reshape(%7) {shape=[1, 8, 8]} : f32[1, 8, 8]
  return %8
}
)");
}

TEST(Layout, MovesTheGradientsAsWell) {
  EXPECT_EQ(laid_out(R"(graph(%0: f32[2, 5, 5, 3], %1: f32[4, 3, 3, 3], %2: f32[2, 5, 5, 4]) {
    %3 = permute(%0) {permutation=[0, 3, 1, 2]} : f32[2, 3, 5, 5]
    %4 = permute(%2) {permutation=[0, 3, 1, 2]} : f32[2, 4, 5, 5]
    %5 = convolution_weight_gradient(%3, %4) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], shape=[4, 3, 3, 3], strides=[1, 1]} : f32[4, 3, 3, 3]
    %6 = convolution_input_gradient(%4, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], shape=[2, 3, 5, 5], strides=[1, 1]} : f32[2, 3, 5, 5]
    %7 = permute(%6) {permutation=[0, 2, 3, 1]} : f32[2, 5, 5, 3]
    return %5, %7
  })"),
            R"(graph(%0: f32[2, 5, 5, 3], %1: f32[4, 3, 3, 3], %2: f32[2, 5, 5, 4]) {
  %3 = channels_last_convolution_weight_gradient(%0, %2) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], shape=[4, 3, 3, 3], strides=[1, 1]} : f32[4, 3, 3, 3]
  %4 = channels_last_convolution_input_gradient(%2, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], shape=[2, 5, 5, 3], strides=[1, 1]} : f32[2, 5, 5, 3]
  return %3, %4
}
)");
}

TEST(Layout, LeavesAloneWhatIsNotClaimedOrDoesNotPay) {
  const std::string between = R"(graph(%0: f32[1, 3, 8, 8], %1: f32[4, 3, 3, 3], %2: f32[4, 4, 3, 3]) {
  %3 = convolution(%0, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
  %4 = convolution(%3, %2) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
  return %4
}
)";
  EXPECT_EQ(laid_out(between, [](const Node&) { return false; }), between);
  EXPECT_NE(laid_out(between), between);
  const std::string alone = R"(graph(%0: f32[1, 3, 8, 8], %1: f32[4, 3, 3, 3]) {
  %2 = convolution(%0, %1) {dilations=[1, 1], groups=1, high=[1, 1], low=[1, 1], strides=[1, 1]} : f32[1, 4, 8, 8]
  %3 = reduce_sum(%2) {axes=[0, 2, 3]} : f32[4]
  return %3
}
)";
  EXPECT_EQ(laid_out(alone), alone);
}

}  // namespace
}  // namespace transom
