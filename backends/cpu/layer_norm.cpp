// SPDX-License-Identifier: Apache-2.0
// layer_norm (Ba et al., 2016) over the last axis, and its gradient. The gradients of scale and bias are summed over
// blocks of rows whose number depends on the shape only, then over the blocks in order.
#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/rows.h"

namespace transom::cpu {
namespace {

constexpr int64_t kMostBlocks = 32;
constexpr int64_t kRowsPerBlock = 32;

void require_width(const Type& parameter, const Rows& rows) {
  if (parameter.count() != rows.width || parameter.dtype != rows.dtype)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a parameter {}[{}], found {}", dtype_name(rows.dtype), rows.width,
         to_string(parameter));
}

Kernel make_layer_norm(const Node& node) {
  const Rows rows = rows_of(node.input(0));
  require_width(node.input(1), rows);
  require_width(node.input(2), rows);
  const auto epsilon = static_cast<float>(node.number("epsilon"));
  return {fmt::format("rows {}", vector_kernels().name), [=](const Arguments& arguments) {
            parallel_ranges(rows.count, row_grain(rows), [&](int64_t begin, int64_t end) {
              const auto width = static_cast<size_t>(rows.width);
              auto* buffer = reinterpret_cast<float*>(thread_scratch(width * 3 * sizeof(float)));
              const float* scale = read_row(rows, arguments.inputs[1], 0, buffer + width);
              const float* bias = read_row(rows, arguments.inputs[2], 0, buffer + 2 * width);
              for (int64_t row = begin; row < end; ++row) {
                float* y = row_target(rows, arguments.outputs[0], row, buffer);
                vector_kernels().layer_norm(y, read_row(rows, arguments.inputs[0], row, buffer), scale, bias, epsilon,
                                            width);
                write_row(rows, arguments.outputs[0], row, y);
              }
            });
          }};
}

struct GradientPlan {
  Rows rows;
  float epsilon;
  int64_t blocks;
};

// partial: [blocks, 2, width], the sums for dscale and dbias of each block.
void gradient_of_blocks(const GradientPlan& plan, const Arguments& arguments, float* partial) {
  const Rows& rows = plan.rows;
  const auto width = static_cast<size_t>(rows.width);
  parallel_for(static_cast<size_t>(plan.blocks), [&](size_t index) {
    const auto block = static_cast<int64_t>(index);
    float* dscale = partial + index * 2 * width;
    float* dbias = dscale + width;
    std::fill_n(dscale, 2 * width, 0.0f);
    auto* buffer = reinterpret_cast<float*>(thread_scratch(width * 4 * sizeof(float)));
    const float* scale = read_row(rows, arguments.inputs[1], 0, buffer + 3 * width);
    const int64_t begin = rows.count * block / plan.blocks, end = rows.count * (block + 1) / plan.blocks;
    for (int64_t row = begin; row < end; ++row) {
      float* dx = row_target(rows, arguments.outputs[0], row, buffer);
      vector_kernels().layer_norm_gradient(dx, dscale, dbias, read_row(rows, arguments.inputs[0], row, buffer + width),
                                           scale, read_row(rows, arguments.inputs[2], row, buffer + 2 * width),
                                           plan.epsilon, width);
      write_row(rows, arguments.outputs[0], row, dx);
    }
  });
}

Kernel make_layer_norm_gradient(const Node& node) {
  const Rows rows = rows_of(node.input(0));
  require_width(node.input(1), rows);
  require_width(node.output(1), rows);
  require_width(node.output(2), rows);
  if (node.input(2).shape != node.input(0).shape || node.input(2).dtype != rows.dtype)
    fail(TRANSOM_INVALID_ARGUMENT, "expected dy like x, {}, found {}", to_string(node.input(0)),
         to_string(node.input(2)));
  const GradientPlan plan{rows, static_cast<float>(node.number("epsilon")),
                          std::clamp<int64_t>(rows.count / kRowsPerBlock, 1, kMostBlocks)};
  const size_t scratch = static_cast<size_t>(plan.blocks * 2 * rows.width) * sizeof(float);
  return {fmt::format("rows {}, {} blocks", vector_kernels().name, plan.blocks),
          [=](const Arguments& arguments) {
            auto* partial = reinterpret_cast<float*>(arguments.scratch);
            gradient_of_blocks(plan, arguments, partial);
            const int64_t width = plan.rows.width;
            for (int64_t block = 1; block < plan.blocks; ++block)
              for (int64_t i = 0; i < 2 * width; ++i) partial[i] += partial[block * 2 * width + i];
            for (size_t k = 0; k < 2; ++k) {
              if (plan.rows.dtype == TRANSOM_FLOAT32)
                std::copy_n(partial + static_cast<int64_t>(k) * width, width, arguments.output<float>(k + 1));
              else write_row(plan.rows, arguments.outputs[k + 1], 0, partial + static_cast<int64_t>(k) * width);
            }
          },
          scratch};
}

}  // namespace

void add_layer_norm_kernels(KernelTable& table) {
  table["layer_norm"] = make_layer_norm;
  table["layer_norm_gradient"] = make_layer_norm_gradient;
}

}  // namespace transom::cpu
