// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <thread>

#include "ir/node.h"
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

std::vector<Tensor> products() {
  const Tensor x = operand({2, 3}), w = operand({4, 3}), image = operand({1, 2, 5, 5}), filter = operand({2, 2, 3, 3});
  return {linear(x, w, {}), matmul(x, operand({3, 2})), convolution(image, filter, {})};
}

TEST(Tf32, IsAllowedForWhatAThreadBuildsWhileItLives) {
  EXPECT_EQ(products_of(products()), (Count{3, 0}));
  {
    const AllowTf32 allowed;
    EXPECT_EQ(products_of(products()), (Count{3, 3}));
    std::thread([] { EXPECT_EQ(products_of(products()), (Count{3, 0})); }).join();  // of another asker
    {
      const AllowTf32 not_here(false);
      EXPECT_EQ(products_of(products()), (Count{3, 0}));
    }
    EXPECT_EQ(products_of(products()), (Count{3, 3}));
  }
  EXPECT_EQ(products_of(products()), (Count{3, 0}));
}

TEST(Tf32, IsAllowedForTheGradientsOfSuchProductsWheneverTheyAreBuilt) {
  const Tensor x = operand({2, 3}), w = operand({4, 3}), dy = operand({2, 4});
  const auto gradients_of = [&](const Tensor& y) { return gradients({y}, {dy}, {x, w}); };
  Tensor allowed;
  {
    const AllowTf32 scope;
    allowed = linear(x, w, {});
  }
  EXPECT_EQ(products_of(gradients_of(allowed)), (Count{2, 2}));
  const Tensor exact = linear(x, w, {});
  const AllowTf32 scope;
  EXPECT_EQ(products_of(gradients_of(exact)), (Count{2, 0}));
}

TEST(Tf32, SaysNothingOfOtherTypes) {
  const AllowTf32 scope;
  const Tensor half = linear(operand({2, 3}, DType::kBFloat16), operand({4, 3}, DType::kBFloat16), {});
  EXPECT_EQ(products_of({half}), (Count{1, 0}));
  const Autocast autocast(DType::kBFloat16);
  EXPECT_EQ(products_of({linear(operand({2, 3}), operand({4, 3}), {})}), (Count{1, 0}));
}

}  // namespace
}  // namespace transom
