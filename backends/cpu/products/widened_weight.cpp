// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/widened_weight.h"

#include <algorithm>

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/matrix_product.h"

namespace transom::cpu {
namespace {

constexpr int64_t kNumbers = 1 << 17;  // of a chunk of the weight: 512 KiB in f32

size_t float_bytes(int64_t count) { return aligned(static_cast<size_t>(count) * sizeof(float)); }

// Whatever the number of threads, so that the bits do not depend on it.
int64_t columns_of_chunk(const ProductPlan& plan) {
  return std::min(std::clamp<int64_t>(kNumbers / plan.k / 16 * 16, 16, 64), plan.n);
}

}  // namespace

std::optional<Kernel> widened_weight_kernel(const Node& node, const ProductPlan& plan) {
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  const bool half = plan.b.dtype == TRANSOM_BFLOAT16 || plan.b.dtype == TRANSOM_FLOAT16;
  if (!weight || weight->dtype != plan.b.dtype || !half || plan.batch != 1 || plan.a.rearrange || plan.b.rearrange ||
      plan.a.column != 1 || plan.b.row != 1 || plan.b.column != plan.k)
    return std::nullopt;
  const int64_t step = columns_of_chunk(plan), chunks = (plan.n + step - 1) / step;
  const auto product = [&](int64_t columns) {
    return MatrixProduct::find({plan.m, columns, plan.k, plan.a.row, 1, 1, plan.k, plan.n, TRANSOM_FLOAT32,
                                TRANSOM_FLOAT32, plan.bias, false});
  };
  const auto whole = product(step), last = product(plan.n - (chunks - 1) * step);
  const bool narrow_output = plan.output != TRANSOM_FLOAT32;
  const size_t a_bytes = float_bytes(plan.a.count), bias_bytes = plan.bias ? float_bytes(plan.n) : 0;
  const size_t c_bytes = narrow_output ? float_bytes(plan.m * plan.n) : 0;
  return Kernel{"onednn matmul f32, weight widened",
                [=](const Arguments& arguments) {
                  auto* a = reinterpret_cast<float*>(arguments.scratch);
                  auto* bias = reinterpret_cast<float*>(arguments.scratch + a_bytes);
                  auto* c = narrow_output ? reinterpret_cast<float*>(arguments.scratch + a_bytes + bias_bytes)
                                          : arguments.output<float>();
                  widen(plan.a.dtype, arguments.inputs[0], a, plan.a.count);
                  if (plan.bias) widen(plan.a.dtype, arguments.inputs[2], bias, plan.n);
                  const TileFunction load = load_function(plan.b.dtype);
                  parallel_for(static_cast<size_t>(chunks), [&](size_t chunk) {
                    const int64_t begin = static_cast<int64_t>(chunk) * step;
                    const auto count = static_cast<size_t>(std::min(step, plan.n - begin) * plan.k);
                    auto* columns = reinterpret_cast<float*>(thread_scratch(count * sizeof(float)));
                    load(columns, arguments.inputs[1] + begin * plan.k * 2, nullptr, nullptr, count);
                    (static_cast<int64_t>(chunk) + 1 == chunks ? last : whole)
                        ->run(a, columns, plan.bias ? bias + begin : nullptr, c + begin);
                  });
                  if (narrow_output) narrow(plan.output, c, arguments.outputs[0], plan.m * plan.n);
                },
                a_bytes + bias_bytes + c_bytes};
}

}  // namespace transom::cpu
