// SPDX-License-Identifier: Apache-2.0
// The attention of Swin V2 (Liu et al., 2022): scores are cosines times a factor of each head, and a small perceptron
// makes their biases of logarithms of distances, so that windows may grow. W windows, M the side of one, C channels.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "models/nn/attention/attention.h"
#include "transom/layers.h"

namespace transom {

// Of each two of rows x columns places the row of a table [(2 rows - 1) (2 columns - 1), ...] that is of their
// distance, i64 [places, places].
inline Tensor swin_distances(int64_t rows, int64_t columns) {
  const int64_t places = rows * columns;
  std::vector<int64_t> index;
  for (int64_t from = 0; from < places; ++from)
    for (int64_t to = 0; to < places; ++to)
      index.push_back((from / columns - to / columns + rows - 1) * (2 * columns - 1) + from % columns - to % columns +
                      columns - 1);
  return Tensor::from(index, {places, places});
}

class SwinCosineAttention {
 public:
  struct Form {
    int64_t width, heads, side;  // of windows
    int64_t learned_side;        // of the windows with which the weights were learned; 0: the same
    bool bias;                   // of queries and values
    double dropout, deviation;
  };
  // `output`: the scope of the layer behind.
  SwinCosineAttention(const Scope& scope, const Scope& output, const Form& f)
      : path_(scope.path()),
        heads_(f.heads),
        side_(f.side),
        distances_(table_of(f)),
        logit_scale_(scope.parameter("logit_scale", {f.heads, 1, 1}, Initial::constant(std::numbers::ln10))),
        widening_(scope / "continuous_position_bias_mlp" / 0, 2, kInner, {.deviation = f.deviation}),
        narrowing_(scope / "continuous_position_bias_mlp" / 2, kInner, f.heads,
                   {.bias = false, .deviation = f.deviation}),
        query_(scope / "query", f.width, f.width, {.bias = f.bias, .deviation = f.deviation}),
        key_(scope / "key", f.width, f.width, {.bias = false, .deviation = f.deviation}),
        value_(scope / "value", f.width, f.width, {.bias = f.bias, .deviation = f.deviation}),
        output_(output, f.width, f.width, {.deviation = f.deviation}),
        dropout_(f.dropout) {
    // Older checkpoints hold what follows from the windows.
    for (const char* name : {"relative_position_index", "relative_coords_table"}) scope.derived(name);
  }

  // windows [W, M M, C], mask [W, 1, M M, M M] or empty
  Tensor operator()(const Tensor& windows, const Tensor& mask, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      Tensor bias = biases(context);
      if (mask.defined()) bias = bias + mask;
      const Tensor scale =
          exp(minimum(cast(logit_scale_->value, DType::kFloat32), full({}, std::log(100.0), DType::kFloat32)));
      const Tensor value = in_heads(value_(windows, context));
      const Tensor query = to_unit(in_heads(query_(windows, context))) * reshape(scale, {heads_, 1});
      const Tensor key = to_unit(in_heads(key_(windows, context)));
      attended = attention(cast(query, value.dtype()), cast(key, value.dtype()), value, bias,
                           {.scale = 1, .causal = false}, dropout_, context);
    }
    return output_(attended, context);
  }

 private:
  static constexpr int64_t kInner = 512;

  Tensor in_heads(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }
  // A vector of zeros stays one, and its gradient a number: padded places have such keys.
  static Tensor to_unit(const Tensor& vectors) {
    const Tensor x = cast(vectors, DType::kFloat32);
    return x / sqrt(maximum(reduce_sum(x * x, {-1}, true), full({}, 1e-24, DType::kFloat32)));
  }
  // [(2 M - 1)^2, 2]: distances of rows and columns, in logarithms.
  static Tensor table_of(const Form& f) {
    const int64_t far = f.side - 1, divisor = f.learned_side > 0 ? f.learned_side - 1 : far;
    const auto logarithm = [&](int64_t distance) {
      const double x = 8.0 * static_cast<double>(distance) / static_cast<double>(std::max<int64_t>(divisor, 1));
      return static_cast<float>(std::copysign(std::log2(std::abs(x) + 1) / 3, x));
    };
    std::vector<float> table;
    for (int64_t row = -far; row <= far; ++row)
      for (int64_t column = -far; column <= far; ++column) {
        table.push_back(logarithm(row));
        table.push_back(logarithm(column));
      }
    return Tensor::from(table, {(2 * far + 1) * (2 * far + 1), 2});
  }
  Tensor biases(ForwardContext& context) const {  // [1, H, M M, M M]
    const Tensor table = narrowing_(relu(widening_(distances_, context)), context);
    const Tensor bias = sigmoid(gather(table, swin_distances(side_, side_), 0)) * 16.0;
    return unsqueeze(permute(bias, {2, 0, 1}), 0);
  }

  std::string path_;
  int64_t heads_, side_;
  Tensor distances_;
  std::shared_ptr<Parameter> logit_scale_;
  Linear widening_, narrowing_, query_, key_, value_, output_;
  Dropout dropout_;
};

}  // namespace transom
