// SPDX-License-Identifier: Apache-2.0
// Random graphs for some seconds, the seeds that once failed, and the cases in found/. More: the program random_graphs.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "base/files/files.h"
#include "random_graphs/comparison.h"
#include "random_graphs/expectation.h"
#include "support/folders.h"
#include "support/test_names.h"
#include "transom/device.h"

namespace transom::random_graphs {
namespace {

std::string text_of(const Failure& failure, const GraphCase& graph_case) {
  return failure.what + "; output " + std::to_string(failure.output) + ", element " + std::to_string(failure.element) +
         ": " + failure.text + "\n" + print_case(graph_case).substr(0, 20'000);
}

void expect_agreement(uint64_t seed) {
  set_device("cpu");
  const GraphCase graph_case = random_case(seed);
  if (const auto failure = check_case(graph_case))
    ADD_FAILURE() << "seed " << seed << ": " << text_of(*failure, graph_case);
}

TEST(RandomGraphs, AgreeOnDevicesAndInModes) {
  const auto begin = std::chrono::steady_clock::now();
  // All of them where the machine is quick; never so many that a slow one fails for its time.
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    expect_agreement(seed);
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) break;
  }
}

class SeedsThatFailed : public testing::TestWithParam<uint64_t> {};
TEST_P(SeedsThatFailed, Agree) { expect_agreement(GetParam()); }
// Not all show today what they once showed: a change of the generator gives a seed another graph. Of the last ones:
// 995276: the smaller of -0 and 0 is either, and its power -3 an infinity of either sign (found/smaller_of_zeros.txt).
// 997998: a sum of 2^-23 among terms of 22 is lost in f32, and its sign is 0 (found/lost_sum.txt).
// 41006656, 41011787, 41024735, 51013168: the sign of -0 (found/sign_of_negative_zero.txt).
// 41027005: x + 0 (found/sum_with_zero.txt).
// 41003475: the records' sum of 14,784 numbers in f64, 2,112 of them the same, was off by 1e-9.
// 41011612: places in an order where two values tie on one device. The comparison was wrong.
// 41022965: a sum of bf16 that cancels to 0, as a bool. The comparison was wrong.
// 71012501: a product beyond f16 with an infinite bias (found/f16_sum_beyond_its_range.txt). The comparison was wrong.
// 81025993, 91024405: a sum of bf16 that stays in f32; one that is a whole number, and a power. The comparison was
// wrong. 771257: a gather of nothing, copied from no address (the undefined-behaviour sanitizer).
// 41032084, 41048794: a GELU beyond its range, and a power or a comparison; 41047603, 41056975, 41086708: sums that
// leave their range on the way; 41084258: equal numbers that are found to be equal. The comparison was wrong (all in
// found/).
INSTANTIATE_TEST_SUITE_P(All, SeedsThatFailed,
                         testing::Values(1002, 1017, 1562, 2027, 2105, 3016, 3212, 3316, 3392, 31399, 709037, 882572,
                                         887481, 889865, 2001433, 2008349, 2009436, 2011530, 2013729, 3005060, 3006505,
                                         3021382, 995276, 997998, 41006656, 41011787, 41024735, 51013168, 41027005,
                                         41003475, 41011612, 41022965, 771257, 71012501, 81025993, 91024405, 41032084,
                                         41047603, 41048794, 41056975, 41084258, 41086708),
                         test::NameOfCase());

TEST(FoundCases, Agree) {
  set_device("cpu");
  size_t tried = 0;
  for (const auto& entry : fs::directory_iterator(test::source_folder() + "/tests/random_graphs/found")) {
    SCOPED_TRACE(entry.path().filename().string());
    const GraphCase graph_case = parse_case(read_file(entry.path()));
    if (const auto failure = check_case(graph_case)) ADD_FAILURE() << text_of(*failure, graph_case);
    ++tried;
  }
  EXPECT_GT(tried, 0u);
}

TEST(GraphCase, ReadsBackFromItsText) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const GraphCase graph_case = random_case(seed);
    const std::string text = print_case(graph_case);
    EXPECT_EQ(print_case(parse_case(text)), text) << seed;
    EXPECT_EQ(print_case(random_case(seed)), text) << seed;
  }
}

GraphCase exponentials() {
  return parse_case(R"(input 0.5 1 -2 3
graph(%0: f32[4]) {
  %1 = exp(%0) : f32[4]
  return %1
}
)");
}

TEST(Expectation, AllowsAFewUnitsInTheLastPlace) {
  const GraphCase graph_case = exponentials();
  Expectation expectation(graph_case);
  expectation.add_walks(8);
  Array found = expectation.output(0);
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  found.real[2] += unit_in_last_place(DType::kFloat32, found.real[2]);
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  found.real[2] *= 1 + 1e-4;
  EXPECT_EQ(expectation.first_wrong(0, found), 2);
}

TEST(Expectation, KnowsWhatCancels) {
  // (x + 1) - 1 of a small x: nearly all digits are lost, and any device may lose others.
  const GraphCase graph_case = parse_case(R"(input 1e-07
graph(%0: f32[1]) {
  %1 = exp(%0) : f32[1]
  %2 = constant() {dtype=8, value=1.0} : f32[]
  %3 = reshape(%2) {shape=[1]} : f32[1]
  %4 = sub(%1, %3) : f32[1]
  return %4
}
)");
  Expectation expectation(graph_case);
  expectation.add_walks(8);
  Array found = expectation.output(0);
  found.real[0] += 1.2e-7;
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  found.real[0] += 1e-5;
  EXPECT_EQ(expectation.first_wrong(0, found), 0);
}

TEST(Expectation, KnowsThatWhatCancelsMayBeLost) {
  // In f32 the sum's second term vanishes beside the others, and its sign with it; without the others it does not.
  const char* graph = R"(
graph(%0: f32[3]) {
  %1 = reduce_sum(%0) {axes=[0]} : f32[]
  %2 = sign(%1) : f32[]
  return %2
}
)";
  for (const bool cancels : {true, false}) {
    const GraphCase graph_case = parse_case((cancels ? "input 4 1e-07 -4" : "input 4 1e-07 -3") + std::string(graph));
    Expectation expectation(graph_case);
    expectation.add_walks(80);
    Array found = expectation.output(0);
    EXPECT_EQ(found.real[0], 1);
    found.real[0] = 0;
    EXPECT_EQ(expectation.first_wrong(0, found), cancels ? -1 : 0);
    found.real[0] = 9;
    EXPECT_EQ(expectation.first_wrong(0, found), 0);
  }
}

TEST(Expectation, KnowsThatProductsOf16BitsMayTakeSubnormalTermsForZeros) {
  const GraphCase graph_case = parse_case(R"(input -4e-38 1e-38 1e-38 1e-38
input 1 1 1 1
graph(%0: bf16[1, 4], %1: bf16[4, 1]) {
  %2 = dot_general(%0, %1) {dtype=7, x_batch=[], x_contract=[1], y_batch=[], y_contract=[0]} : bf16[1, 1]
  return %2
}
)");
  Expectation expectation(graph_case);
  expectation.add_walks(8);
  Array found = expectation.output(0);
  EXPECT_NEAR(found.real[0], -1e-38, 1e-39);
  found.real[0] = -4e-38;
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  found.real[0] = -4e-37;
  EXPECT_EQ(expectation.first_wrong(0, found), 0);
}

TEST(Expectation, LeavesTheSignOfDifferentZerosOpenAndNoOther) {
  const auto turned = [](const std::string& inputs, const std::string& operation, double instead) {
    const GraphCase graph_case = parse_case(inputs + "graph(%0: f32[2], %1: f32[2]) {\n  %2 = " + operation +
                                            " : f32[2]\n  %3 = rsqrt(%2) : f32[2]\n  return %3\n}\n");
    Expectation expectation(graph_case);
    expectation.add_walks(80);
    Array found = expectation.output(0);
    EXPECT_TRUE(std::isinf(found.real[0]));
    found.real[0] *= instead;
    return expectation.first_wrong(0, found);
  };
  const std::string different = "input 0 1\ninput -0 1\n", equal = "input -0 1\ninput -0 1\n";
  EXPECT_EQ(turned(different, "max(%0, %1)", -1), -1);
  EXPECT_EQ(turned(different, "max(%0, %1)", 0), 0);  // infinite of either sign, and nothing else
  EXPECT_EQ(turned(equal, "max(%0, %1)", -1), 0);
  EXPECT_EQ(turned(different, "mul(%0, %1)", -1), 0);
}

// Sums whose terms leave the range of f32 on both sides, or do not.
GraphCase beyond_range(const std::string& factors, const std::string& result) {
  return parse_case("input " + factors + "\ninput 3e+38 3e+38 3e+38 3e+38\n" + R"(
graph(%0: f32[1, 2], %1: f32[2, 2]) {
  %2 = dot_general(%0, %1) {dtype=8, x_batch=[], x_contract=[1], y_batch=[], y_contract=[0]} : f32[1, 2]
  %3 = )" + result + R"( : f32[1, 2]
  return %3
}
)");
}

TEST(Expectation, KnowsThatASumMayLeaveItsRangeOnTheWayToEitherSide) {
  const GraphCase graph_case = beyond_range("2 -4", "sign(%2)");
  Expectation expectation(graph_case);
  expectation.add_walks(80);
  Array found = expectation.output(0);
  EXPECT_EQ(found.real[0], -1);
  found.real[0] = 1;
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  const GraphCase determined = beyond_range("0.1 0.2", "sign(%2)");
  Expectation of_determined(determined);
  of_determined.add_walks(80);
  found = of_determined.output(0);
  found.real[0] = -1;
  EXPECT_EQ(of_determined.first_wrong(0, found), 0);
}

TEST(Expectation, KnowsThatWhatIsMadeOfSuchSumsMayBeOrdinaryNumbers) {
  const GraphCase graph_case = beyond_range("2 -4", "log_softmax(%2)");
  Expectation expectation(graph_case);
  expectation.add_walks(80);
  Array found = expectation.output(0);
  EXPECT_FALSE(std::isfinite(found.real[0]));
  found.real[0] = found.real[1] = -0.6931472;
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
}

TEST(Expectation, KnowsThatErrorsMayLeaveEqualNumbersEqual) {
  // Without errors both rows are their norm's bias, and both are the smallest. With errors everywhere the first, whose
  // numbers are smaller, hardly ever is: then its gradient is a plain 0, where otherwise it is what cancels.
  const GraphCase graph_case = parse_case(R"(input 0.1 1.9
input -1.3070859909057617
input -0.039475902915000916 -0.039475902915000916
graph(%0: f32[2, 1], %1: f32[1], %2: f32[2, 1]) {
  %3 = layer_norm(%0, %1, %1) {epsilon=1e-05} : f32[2, 1]
  %4 = reduce_min(%3) {axes=[0]} : f32[1]
  %5 = reshape(%4) {shape=[1, 1]} : f32[1, 1]
  %6 = broadcast(%5) {shape=[2, 1]} : f32[2, 1]
  %7 = equal(%3, %6) : bool[2, 1]
  %8 = cast(%7) {dtype=8} : f32[2, 1]
  %9 = mul(%8, %2) : f32[2, 1]
  %10, %11, %12 = layer_norm_gradient(%0, %1, %9) {epsilon=1e-05} : f32[2, 1], f32[1], f32[1]
  return %10
}
)");
  Expectation expectation(graph_case);
  expectation.add_walks(80);
  Array found = expectation.output(0);
  found.real[0] = -6.3e-8;
  EXPECT_EQ(expectation.first_wrong(0, found), -1);
  found.real[0] = -1e-4;
  EXPECT_EQ(expectation.first_wrong(0, found), 0);
}

TEST(Expectation, WantsIntegersAndMovementExactly) {
  const GraphCase graph_case = parse_case(R"(input 3 1 2
input 0.1 0.2 0.3
graph(%0: i64[3], %1: f32[3]) {
  %2 = mul(%0, %0) : i64[3]
  %3 = reverse(%1) {axes=[0]} : f32[3]
  return %2, %3
}
)");
  Expectation expectation(graph_case);
  Array squares = expectation.output(0), reversed = expectation.output(1);
  EXPECT_EQ(squares.integer, (std::vector<int64_t>{9, 1, 4}));
  squares.integer[1] = 2;
  EXPECT_EQ(expectation.first_wrong(0, squares), 1);
  reversed.real[0] += 3 * unit_in_last_place(DType::kFloat32, reversed.real[0]);
  EXPECT_EQ(expectation.first_wrong(1, reversed), 0);
}

}  // namespace
}  // namespace transom::random_graphs
