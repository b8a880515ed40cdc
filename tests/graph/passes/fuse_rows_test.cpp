// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

std::string fused_rows(std::string_view text) {
  const Graph graph = fuse_rows(parse_graph(text));
  verify(graph);
  return print_graph(graph);
}

// A norm: what stands before the reduction, one number a row, and what spreads it over the row again.
TEST(FuseRows, MakesOneKernelOfANorm) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[3, 4], %1: f32[3, 4]) {
    %2 = mul(%0, %1) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = reshape(%3) {shape=[3, 1]} : f32[3, 1]
    %5 = rsqrt(%4) : f32[3, 1]
    %6 = fusion(%0, %5) region graph(%0: f32[3, 4], %1: f32[3, 1]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %6
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[3, 4]) {
  %2 = row_fusion(%0, %1) region graph(%0: f32[3, 4], %1: f32[3, 4]) {
    %2 = mul(%0, %1) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = reshape(%3) {shape=[3, 1]} : f32[3, 1]
    %5 = rsqrt(%4) : f32[3, 1]
    %6 = fusion(%0, %5) region graph(%0: f32[3, 4], %1: f32[3, 1]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %6
  } : f32[3, 4]
  return %2
}
)");
}

// The logarithms of the probabilities are read by the group alone; the loss of each row is all that leaves it.
TEST(FuseRows, TakesRowsOfComposites) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
    %3 = log_softmax(%0) : f32[3, 4]
    %4 = select(%1, %3, %2) : f32[3, 4]
    %5 = reduce_sum(%4) {axes=[1]} : f32[3]
    return %5
  })"),
            R"(graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
  %3 = row_fusion(%0, %1, %2) region graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
    %3 = log_softmax(%0) : f32[3, 4]
    %4 = select(%1, %3, %2) : f32[3, 4]
    %5 = reduce_sum(%4) {axes=[1]} : f32[3]
    return %5
  } : f32[3]
  return %3
}
)");
}

// What is read outside is an output besides.
TEST(FuseRows, KeepsWhatOthersRead) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
    %4 = add(%0, %1) : f32[3, 4]
    %5 = layer_norm(%4, %2, %3) {epsilon=1e-05} : f32[3, 4]
    return %4, %5
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
  %4, %5 = row_fusion(%0, %1, %2, %3) region graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
    %4 = add(%0, %1) : f32[3, 4]
    %5 = layer_norm(%4, %2, %3) {epsilon=1e-05} : f32[3, 4]
    return %4, %5
  } : f32[3, 4], f32[3, 4]
  return %4, %5
}
)");
}

// A graph that the pass must leave as it is.
void expect_unchanged(std::string_view text) { EXPECT_EQ(fused_rows(text), print_graph(parse_graph(text))); }

TEST(FuseRows, LeavesSingleNodes) {
  expect_unchanged(R"(graph(%0: f32[3, 4]) {
    %1 = softmax(%0) : f32[3, 4]
    return %1
  })");
}

// The sum is over all rows before any of them can be read.
TEST(FuseRows, LeavesReductionsOfOtherAxes) {
  expect_unchanged(R"(graph(%0: f32[3, 4]) {
    %1 = exp(%0) : f32[3, 4]
    %2 = reduce_sum(%1) {axes=[0]} : f32[4]
    %3 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
    %4 = fusion(%1, %3) region graph(%0: f32[3, 4], %1: f32[1, 4]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %4
  })");
}

// The second row of the result needs the first row of the sum.
TEST(FuseRows, LeavesWhatReadsOtherRows) {
  expect_unchanged(R"(graph(%0: f32[4, 4]) {
    %1 = reduce_sum(%0) {axes=[1]} : f32[4]
    %2 = reshape(%1) {shape=[1, 4]} : f32[1, 4]
    %3 = fusion(%0, %2) region graph(%0: f32[4, 4], %1: f32[1, 4]) {
      %2 = broadcast(%1) {shape=[4, 4]} : f32[4, 4]
      %3 = mul(%0, %2) : f32[4, 4]
      return %3
    } : f32[4, 4]
    return %3
  })");
}

// A total over everything is made by the fusion itself.
TEST(FuseRows, LeavesOneRow) {
  expect_unchanged(R"(graph(%0: f32[1, 4]) {
    %1 = exp(%0) : f32[1, 4]
    %2 = reduce_max(%1) {axes=[1]} : f32[1]
    return %2
  })");
}

// Once somebody outside has read the group, it takes nobody more: it stands before that reader.
TEST(FuseRows, EndsAtAReaderOutside) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[3, 4], %1: f32[5, 4]) {
    %2 = exp(%0) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = linear(%2, %1) : f32[3, 5]
    %5 = log(%3) : f32[3]
    return %4, %5
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[5, 4]) {
  %2, %3 = row_fusion(%0) region graph(%0: f32[3, 4]) {
    %1 = exp(%0) : f32[3, 4]
    %2 = reduce_sum(%1) {axes=[1]} : f32[3]
    return %1, %2
  } : f32[3, 4], f32[3]
  %4 = linear(%2, %1) : f32[3, 5]
  %5 = log(%3) : f32[3]
  return %4, %5
}
)");
}

// The gradient of a bias stands behind the product that reads the same tensor; it is summed on the way all the same.
TEST(FuseRows, SumsColumnsWhereTheRowsAreMade) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[2, 300, 4], %1: f32[2, 300, 4], %2: f32[4, 5]) {
    %3 = fusion(%0, %1) region graph(%0: f32[2, 300, 4], %1: f32[2, 300, 4]) {
      %2 = tanh(%0) : f32[2, 300, 4]
      %3 = mul(%1, %2) : f32[2, 300, 4]
      return %3
    } : f32[2, 300, 4]
    %4 = dot_general(%3, %2) {dtype=8, x_batch=[], x_contract=[2], y_batch=[], y_contract=[0]} : f32[2, 300, 5]
    %5 = reduce_sum(%3) {axes=[0, 1]} : f32[4]
    return %4, %5
  })"),
            R"(graph(%0: f32[2, 300, 4], %1: f32[2, 300, 4], %2: f32[4, 5]) {
  %3, %4 = row_fusion(%0, %1) region graph(%0: f32[2, 300, 4], %1: f32[2, 300, 4]) {
    %2 = fusion(%0, %1) region graph(%0: f32[2, 300, 4], %1: f32[2, 300, 4]) {
      %2 = tanh(%0) : f32[2, 300, 4]
      %3 = mul(%1, %2) : f32[2, 300, 4]
      return %3
    } : f32[2, 300, 4]
    %3 = reduce_sum(%2) {axes=[0, 1]} : f32[4]
    return %2, %3
  } : f32[2, 300, 4], f32[4]
  %5 = dot_general(%3, %2) {dtype=8, x_batch=[], x_contract=[2], y_batch=[], y_contract=[0]} : f32[2, 300, 5]
  return %5, %4
}
)");
}

// Dropout behind a norm, backward: one walk makes the gradients of what it scales, of its bias and of the bias before.
TEST(FuseRows, TakesTheGradientOfANorm) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[300, 4], %1: f32[4], %2: bf16[300, 4], %3: f32[300, 4]) {
    %4 = cast(%2) {dtype=8} : f32[300, 4]
    %5, %6, %7 = layer_norm_gradient(%0, %1, %4) {epsilon=1e-05} : f32[300, 4], f32[4], f32[4]
    %8 = mul(%5, %3) : f32[300, 4]
    %9 = reduce_sum(%8) {axes=[0]} : f32[4]
    %10 = add(%7, %9) : f32[4]
    return %5, %6, %8, %10
  })"),
            R"(graph(%0: f32[300, 4], %1: f32[4], %2: bf16[300, 4], %3: f32[300, 4]) {
  %4, %5, %6, %7, %8 = row_fusion(%2, %0, %1, %3) region graph(%0: bf16[300, 4], %1: f32[300, 4], %2: f32[4], %3: f32[300, 4]) {
    %4 = cast(%0) {dtype=8} : f32[300, 4]
    %5, %6, %7 = layer_norm_gradient(%1, %2, %4) {epsilon=1e-05} : f32[300, 4], f32[4], f32[4]
    %8 = mul(%5, %3) : f32[300, 4]
    %9 = reduce_sum(%8) {axes=[0]} : f32[4]
    return %5, %6, %7, %8, %9
  } : f32[300, 4], f32[4], f32[4], f32[300, 4], f32[4]
  %9 = add(%6, %8) : f32[4]
  return %4, %5, %7, %9
}
)");
}

// What it adds to rows is not known before all of them are summed, though the sums look like one number a row.
TEST(FuseRows, NeverReadsSumsOverRowsInTheSameWalk) {
  EXPECT_EQ(fused_rows(R"(graph(%0: f32[300, 300]) {
    %1 = exp(%0) : f32[300, 300]
    %2 = reduce_sum(%1) {axes=[0]} : f32[300]
    %3 = reshape(%2) {shape=[300, 1]} : f32[300, 1]
    %4 = fusion(%1, %3) region graph(%0: f32[300, 300], %1: f32[300, 1]) {
      %2 = broadcast(%1) {shape=[300, 300]} : f32[300, 300]
      %3 = mul(%0, %2) : f32[300, 300]
      return %3
    } : f32[300, 300]
    %5 = log(%2) : f32[300]
    return %4, %5
  })"),
            R"(graph(%0: f32[300, 300]) {
  %1, %2 = row_fusion(%0) region graph(%0: f32[300, 300]) {
    %1 = exp(%0) : f32[300, 300]
    %2 = reduce_sum(%1) {axes=[0]} : f32[300]
    return %1, %2
  } : f32[300, 300], f32[300]
  %3 = reshape(%2) {shape=[300, 1]} : f32[300, 1]
  %4 = fusion(%1, %3) region graph(%0: f32[300, 300], %1: f32[300, 1]) {
    %2 = broadcast(%1) {shape=[300, 300]} : f32[300, 300]
    %3 = mul(%0, %2) : f32[300, 300]
    return %3
  } : f32[300, 300]
  %5 = log(%2) : f32[300]
  return %4, %5
}
)");
}

// Few rows are cut into too few pieces for the threads; other axes leave more than one row of sums; f64 is summed
// wider.
TEST(FuseRows, LeavesOtherSumsOverRows) {
  const auto text = [](std::string_view type, std::string_view sum, std::string_view axes) {
    return fmt::format(R"(graph(%0: {0}) {{
      %1 = neg(%0) : {0}
      %2 = reduce_sum(%1) {{axes=[{2}]}} : {1}
      return %1, %2
    }})",
                       type, sum, axes);
  };
  expect_unchanged(text("f32[255, 4]", "f32[4]", "0"));
  expect_unchanged(text("f32[300, 2, 4]", "f32[2, 4]", "0"));
  expect_unchanged(text("f32[300, 2, 4]", "f32[300, 4]", "1"));
  expect_unchanged(text("f32[300, 1]", "f32[1]", "0"));
  expect_unchanged(text("f64[300, 4]", "f64[4]", "0"));
  expect_unchanged(text("i32[300, 4]", "i32[4]", "0"));
}

}  // namespace
}  // namespace transom
