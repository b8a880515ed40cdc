// SPDX-License-Identifier: Apache-2.0
// Tensors by themselves: drawn, contracted, chosen from, indexed, printed, and moved to another device.
//   example_attend [DEVICE]
#include <cmath>
#include <iostream>

#include "transom/transom.h"

using namespace transom;

int main(int argc, char** argv) {
  const Tensor key = Tensor::from<int64_t>({42, 0}, {2});
  const Tensor q = random_normal(key, {2, 3, 4}), k = q * 2.0;
  const Tensor scores = einsum("bqd,bkd->bqk", {q, k}) / std::sqrt(4.0);
  const Tensor earlier = greater_equal(iota({3, 3}, 0), iota({3, 3}, 1));
  const Tensor weights = softmax(where(earlier, scores, constant(kMaskedScore)));
  std::cout << weights[0] << '\n' << "rows sum to " << mean(reduce_sum(weights, {-1})) << '\n';
  std::cout << "last row of the last batch: " << weights[-1][-1] << '\n';

  const std::string other = argc > 1 ? argv[1] : device_name();
  const DeviceScope scope(other);  // from here on this thread makes tensors there
  const Tensor moved = weights.to(other) * Tensor::from<float>({1, 2, 3}, {3});
  std::cout << "sum " << sum(moved) << " on " << moved.device() << '\n';
}
