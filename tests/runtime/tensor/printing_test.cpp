// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

TEST(Printing, IsThatOfNumPy) {
  set_device("cpu");
  EXPECT_EQ(to_string(Tensor::from<float>({1, 2.5, -3, 4}, {2, 2})), "[[  1, 2.5],\n [ -3,   4]] f32[2, 2]");
  EXPECT_EQ(to_string(Tensor::scalar(0.1)), "0.1 f32[]");
  EXPECT_EQ(to_string(Tensor::from<int64_t>({1, 2, 3, 4}, {2, 1, 2})), "[[[1, 2]],\n\n [[3, 4]]] i64[2, 1, 2]");
  EXPECT_EQ(to_string(Tensor::from<int64_t>({(int64_t{1} << 62) + 1}, {1})), "[4611686018427387905] i64[1]");
  EXPECT_EQ(to_string(Tensor::from<float>({NAN, INFINITY}, {2})), "[nan, inf] f32[2]");
  EXPECT_EQ(to_string(zeros({0, 3})), "[] f32[0, 3]");
  EXPECT_EQ(to_string(Tensor()), "undefined");
  std::ostringstream out;
  out << greater(Tensor::from<float>({1, -1}, {2}), zeros({2}));
  EXPECT_EQ(out.str(), "[ true, false] bool[2]");
}

TEST(Printing, ShowsTheEndsOfWhatIsLong) {
  set_device("cpu");
  std::vector<int32_t> numbers(2000);
  std::iota(numbers.begin(), numbers.end(), 0);
  EXPECT_EQ(to_string(Tensor::from(numbers, {2000})), "[   0,    1,    2, ..., 1997, 1998, 1999] i32[2000]");
  EXPECT_EQ(to_string(Tensor::from(numbers, {2, 1000})),
            "[[   0,    1,    2, ...,  997,  998,  999],\n [1000, 1001, 1002, ..., 1997, 1998, 1999]] i32[2, 1000]");
}

}  // namespace
}  // namespace transom
