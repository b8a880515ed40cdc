// SPDX-License-Identifier: Apache-2.0
// The numbers are those of torch.Generator on a CPU.
#include "base/numbers/mt19937.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

using Numbers = std::vector<int64_t>;

TEST(Mt19937, PermutesAsTorch) {
  Mt19937 generator(42);
  EXPECT_EQ(generator.randperm(10), (Numbers{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(generator.randperm(5), (Numbers{3, 0, 1, 2, 4}));
  EXPECT_EQ(generator.randperm(0), Numbers{});
  EXPECT_THROW(generator.randperm(-1), Error);
  generator.seed((uint64_t{1} << 40) + 5);
  EXPECT_EQ(generator.randperm(6), (Numbers{5, 0, 1, 3, 4, 2}));
}

TEST(Mt19937, DrawsSeedsAsRandomSampler) {
  Mt19937 generator(42);
  EXPECT_EQ(generator.random_int64(), 6909045637428952499);
  EXPECT_EQ(generator.random_int64(), 8314211556539077902);
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6 * std::max(1.0F, std::abs(expected[i]))) << "at " << i;
}

// One sequence of draws, because each takes up where the one before left the generator.
TEST(Mt19937, DrawsDistributionsAsTorch) {
  Mt19937 generator(7);
  std::vector<float> values(5);
  generator.fill_uniform(values);
  EXPECT_EQ(values,
            (std::vector<float>{0x1.11e15ep-1F, 0x1.97262p-3F, 0x1.518432p-1F, 0x1.5053ecp-1F, 0x1.dcb218p-3F}));
  generator.fill_normal(values);
  expect_near(values, {-0x1.cd8e6ap-3F, 0x1.4d2ac2p-3F, 0x1.8291e2p-2F, -0x1.e6ddfap-1F, -0x1.30f8dap+0F});
  values.resize(2);
  generator.fill_normal(values, 1, 2);  // begins with the spare number of the five before
  expect_near(values, {-2.3035316467285156F, -2.435399293899536F});
  values.resize(19);
  generator.fill_normal(values);
  expect_near(values, {0.7820726633071899F, 1.0391076803207397F, -0.7245107293128967F, -0.13543689250946045F,
                       0.7471182346343994F, 0.6118157505989075F, 1.867783546447754F, 2.5116028785705566F,
                       -1.254785180091858F, 0.8164564967155457F, -1.065398931503296F, -1.6370213031768799F,
                       0.1577119082212448F, 0.39574092626571655F, -1.3677396774291992F, -0.10073431581258774F,
                       0.23701459169387817F, 0.6326820850372314F, -0.09167716652154922F});
  values.resize(32);
  generator.fill_normal(values, 0.5F, 0.02F);
  EXPECT_NEAR(values[0], 0.49235767126083374, 1e-6);
  EXPECT_NEAR(values[31], 0.4807354211807251, 1e-6);
  Numbers coins;
  for (int i = 0; i < 20; ++i) coins.push_back(generator.bernoulli(0.3F));
  EXPECT_EQ(coins, (Numbers{0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0}));
  Numbers small, large;
  for (int i = 0; i < 8; ++i) small.push_back(generator.randint(1000));
  for (int i = 0; i < 4; ++i) large.push_back(generator.randint(int64_t{1} << 40));
  EXPECT_EQ(small, (Numbers{722, 719, 400, 180, 773, 755, 705, 457}));
  EXPECT_EQ(large, (Numbers{329357973315, 475610395278, 534677999892, 231730628604}));
}

TEST(Mt19937, GoesOnFromItsState) {
  Mt19937 generator(1);
  std::vector<float> values(3);
  generator.fill_normal(values);
  Mt19937 other(99);
  other.set_state(generator.state());
  generator.fill_normal(values);
  std::vector<float> again(3);
  other.fill_normal(again);
  EXPECT_EQ(values, again);
  EXPECT_EQ(generator.random64(), other.random64());
  EXPECT_THROW(other.set_state(std::vector<uint64_t>(10)), Error);
  std::vector<uint64_t> broken = generator.state();
  broken[624] = 10000;
  EXPECT_THROW(other.set_state(broken), Error);
}

}  // namespace
}  // namespace transom
