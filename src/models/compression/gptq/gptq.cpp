// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gptq/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/threads/threads.h"
#include "files/blocks/rounded_matrix.h"
#include "models/compression/gptq/cholesky.h"

namespace transom {
namespace {

constexpr int64_t kRowsTogether = 8;  // which share a row of U while it is in the first cache

std::vector<float> damped_factor(std::vector<float> h, int64_t n, double damping) {
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    float& square = h[static_cast<size_t>(i * n + i)];
    if (!(square > 0)) square = 1;  // an input that is always 0
    mean += square / static_cast<double>(n);
  }
  for (int attempt = 0; attempt < 8; ++attempt, damping *= 10) {
    std::vector<float> more = h;
    for (int64_t i = 0; i < n; ++i) more[static_cast<size_t>(i * n + i)] += static_cast<float>(damping * mean);
    if (std::vector<float> u = inverse_factor(more, n); !u.empty()) return u;
  }
  fail("gptq: the inputs of the calibration are not finite");
}

}  // namespace

std::shared_ptr<CodedMatrix> gptq_matrix(const std::vector<float>& w, int64_t rows, int64_t depth,
                                         const std::vector<float>& h, const GptqOptions& options) {
  std::vector<int64_t> order(static_cast<size_t>(depth));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto square = [&](int64_t i) { return h[static_cast<size_t>(i * depth + i)]; };
  if (options.act_order)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return square(a) > square(b); });
  const auto input = [&](int64_t k) { return order[static_cast<size_t>(k)]; };
  std::vector<float> sorted(h.size());
  for (int64_t i = 0; i < depth; ++i)
    for (int64_t j = 0; j < depth; ++j)
      sorted[static_cast<size_t>(i * depth + j)] = h[static_cast<size_t>(input(i) * depth + input(j))];
  const std::vector<float> u = damped_factor(std::move(sorted), depth, options.damping);
  BlockLayout layout{.rows = rows,
                     .depth = depth,
                     .bits = options.bits,
                     .group = options.group > 0 ? options.group : depth,
                     .scale_type = DType::kFloat16};
  if (options.act_order) layout.order = order;
  auto made = std::make_shared<CodedMatrix>(std::move(layout));
  const int64_t group = made->layout().group, groups = made->layout().groups();
  const auto middle = static_cast<float>(1 << (options.bits - 1));
  const int64_t blocks = (rows + kRowsTogether - 1) / kRowsTogether;
  parallel_for(static_cast<size_t>(blocks), [&](size_t block) {
    const int64_t first = static_cast<int64_t>(block) * kRowsTogether, count = std::min(kRowsTogether, rows - first);
    std::vector<float> left(static_cast<size_t>(count * depth));
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < depth; ++k)
        left[static_cast<size_t>(r * depth + k)] =
            square(input(k)) > 0 ? w[static_cast<size_t>((first + r) * depth + input(k))] : 0;
    for (int64_t k = 0; k < depth; ++k) {
      const float* corrections = u.data() + k * depth;
      for (int64_t r = 0; r < count; ++r) {
        float* own = left.data() + r * depth;
        float& scale = made->scales[static_cast<size_t>((first + r) * groups + k / group)];
        if (k % group == 0) scale = symmetric_scale(own + k, std::min(group, depth - k), options.bits);
        const float code = scale > 0 ? std::clamp(std::nearbyint(own[k] / scale), -middle, middle - 1) : 0;
        made->codes[static_cast<size_t>((first + r) * depth + k)] = static_cast<uint8_t>(code + middle);
        const float error = (own[k] - scale * code) / corrections[k];
        for (int64_t j = k; j < depth; ++j) own[j] -= error * corrections[j];
      }
    }
  });
  return made;
}

}  // namespace transom
