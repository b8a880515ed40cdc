// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "graph/ir/node.h"
#include "support/evaluation.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

Tensor operand(const Shape& shape, DType dtype = DType::kFloat32) { return make_input({dtype, shape}); }

// How many products and convolutions x is made of, and how many of them say that TF32 is allowed.
struct Count {
  int all = 0, allowed = 0;
  bool operator==(const Count&) const = default;
};
void count(const Tensor& x, std::set<const void*>& seen, Count& result) {
  if (!x.node() || !seen.insert(x.node().get()).second) return;
  const std::string_view name = x.node()->operation->name;
  if (name == "linear" || name == "dot_general" || name.starts_with("convolution")) {
    ++result.all;
    result.allowed += x.node()->attributes.has("tf32");
  }
  for (const Tensor& each : x.node()->inputs) count(each, seen, result);
}
Count products_of(const std::vector<Tensor>& values) {
  std::set<const void*> seen;
  Count result;
  for (const Tensor& x : values) count(x, seen, result);
  return result;
}

constexpr Computing kAllowed{.tf32 = true};

std::vector<Tensor> products(const Computing& computing) {
  const Tensor x = operand({2, 3}), w = operand({4, 3}), image = operand({1, 2, 5, 5}), filter = operand({2, 2, 3, 3});
  return {linear(x, w, {}, computing), matmul(x, operand({3, 2}), computing),
          convolution(image, filter, {}, computing)};
}

TEST(Tf32, IsAllowedWhereTheCallSaysSo) {
  EXPECT_EQ(products_of(products({})), (Count{3, 0}));
  EXPECT_EQ(products_of(products(kAllowed)), (Count{3, 3}));
}

TEST(Tf32, IsAllowedForTheGradientsOfSuchProducts) {
  const Tensor x = operand({2, 3}), w = operand({4, 3}), dy = operand({2, 4});
  const auto gradients_of = [&](const Tensor& y) { return gradients({y}, {dy}, {x, w}); };
  EXPECT_EQ(products_of(gradients_of(linear(x, w, {}, kAllowed))), (Count{2, 2}));
  EXPECT_EQ(products_of(gradients_of(linear(x, w))), (Count{2, 0}));
}

TEST(Tf32, SaysNothingOfOtherTypes) {
  const Tensor half = linear(operand({2, 3}, DType::kBFloat16), operand({4, 3}, DType::kBFloat16), {}, kAllowed);
  EXPECT_EQ(products_of({half}), (Count{1, 0}));
  const Computing low{.dtype = DType::kBFloat16, .tf32 = true};
  EXPECT_EQ(products_of({linear(operand({2, 3}), operand({4, 3}), {}, low)}), (Count{1, 0}));
}

}  // namespace
}  // namespace transom
