// SPDX-License-Identifier: Apache-2.0
// The operations on tensors. Binary operations broadcast as NumPy does and need equal element types, except
// floating ones, of which the wider is taken; axes may be negative.
// Shape errors are thrown at the call.
// Those that depend on what they compute under, such as the precision of products, take a Computing.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/computing.h"
#include "transom/tensor.h"

namespace transom {

using Axes = std::vector<int64_t>;

// ---- constants. Their values are part of the compiled program: for values that change use Tensor::scalar.
Tensor constant(double value, DType dtype = DType::kFloat32);  // shape []
Tensor full(const Shape& shape, double value, DType dtype = DType::kFloat32);
Tensor zeros(const Shape& shape, DType dtype = DType::kFloat32);
Tensor iota(const Shape& shape, int64_t axis, DType dtype = DType::kInt64);  // the index along axis

// ---- element by element
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor is_finite(const Tensor& x);
Tensor logical_not(const Tensor& x);
Tensor add(const Tensor& x, const Tensor& y);
Tensor sub(const Tensor& x, const Tensor& y);
Tensor mul(const Tensor& x, const Tensor& y);
Tensor div(const Tensor& x, const Tensor& y);
Tensor pow(const Tensor& x, const Tensor& y);
Tensor maximum(const Tensor& x, const Tensor& y);
Tensor minimum(const Tensor& x, const Tensor& y);
Tensor remainder(const Tensor& x, const Tensor& y);
Tensor logical_and(const Tensor& x, const Tensor& y);
Tensor logical_or(const Tensor& x, const Tensor& y);
Tensor logical_xor(const Tensor& x, const Tensor& y);
Tensor equal(const Tensor& x, const Tensor& y);
Tensor not_equal(const Tensor& x, const Tensor& y);
Tensor less(const Tensor& x, const Tensor& y);
Tensor less_equal(const Tensor& x, const Tensor& y);
Tensor greater(const Tensor& x, const Tensor& y);
Tensor greater_equal(const Tensor& x, const Tensor& y);
Tensor select(const Tensor& condition, const Tensor& x, const Tensor& y);
inline Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y) { return select(condition, x, y); }
Tensor cast(const Tensor& x, DType dtype);

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, const Tensor& y) { return add(x, y); }
inline Tensor operator-(const Tensor& x, const Tensor& y) { return sub(x, y); }
inline Tensor operator*(const Tensor& x, const Tensor& y) { return mul(x, y); }
inline Tensor operator/(const Tensor& x, const Tensor& y) { return div(x, y); }
inline Tensor operator+(const Tensor& x, double y) { return add(x, constant(y, x.dtype())); }
inline Tensor operator-(const Tensor& x, double y) { return sub(x, constant(y, x.dtype())); }
inline Tensor operator*(const Tensor& x, double y) { return mul(x, constant(y, x.dtype())); }
inline Tensor operator/(const Tensor& x, double y) { return div(x, constant(y, x.dtype())); }
inline Tensor operator+(double x, const Tensor& y) { return add(constant(x, y.dtype()), y); }
inline Tensor operator-(double x, const Tensor& y) { return sub(constant(x, y.dtype()), y); }
inline Tensor operator*(double x, const Tensor& y) { return mul(constant(x, y.dtype()), y); }
inline Tensor operator/(double x, const Tensor& y) { return div(constant(x, y.dtype()), y); }

// ---- reductions. keep: the reduced axes stay with extent 1.
Tensor reduce_sum(const Tensor& x, const Axes& axes, bool keep = false);
Tensor reduce_max(const Tensor& x, const Axes& axes, bool keep = false);
Tensor reduce_min(const Tensor& x, const Axes& axes, bool keep = false);
Tensor mean(const Tensor& x, const Axes& axes, bool keep = false);
Tensor sum(const Tensor& x);   // over all axes, shape []
Tensor mean(const Tensor& x);  // over all axes, shape []
Tensor arg_max(const Tensor& x, int64_t axis);
Tensor arg_min(const Tensor& x, int64_t axis);
Tensor cumulative_sum(const Tensor& x, int64_t axis);
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t axis, bool descending = false);  // values, places
std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k);                             // of the last axis

// ---- movement
Tensor reshape(const Tensor& x, Shape shape);  // one extent may be -1
Tensor permute(const Tensor& x, const Axes& permutation);
Tensor transpose(const Tensor& x, int64_t axis1, int64_t axis2);
Tensor broadcast_to(const Tensor& x, const Shape& shape);  // as NumPy's broadcast_to
Tensor unsqueeze(const Tensor& x, int64_t axis);
Tensor squeeze(const Tensor& x, int64_t axis);
Tensor flatten(const Tensor& x, int64_t first, int64_t last = -1);  // joins the axes first..last
Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t stride = 1);
Tensor pad(const Tensor& x, const Axes& low, const Axes& high, double value = 0);
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis);
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);  // side by side along a new axis
Tensor reverse(const Tensor& x, const Axes& axes);

// ---- indexing
Tensor gather(const Tensor& x, const Tensor& indices, int64_t axis);
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t axis);
// x [n, ...] with row indices[i] set to updates[i], in order; an index outside of x sets nothing.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis);  // as torch.gather
Tensor dynamic_slice(const Tensor& x, const Tensor& starts, const Shape& sizes);
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const Tensor& starts);

// ---- random numbers: element i of a draw depends on key and i alone. key: i64 [2] = (seed, offset).
Tensor random_bits(const Tensor& key, const Shape& shape);                                    // u32
Tensor random_uniform(const Tensor& key, const Shape& shape, DType dtype = DType::kFloat32);  // [0, 1)
Tensor random_normal(const Tensor& key, const Shape& shape, DType dtype = DType::kFloat32);   // mean 0, deviation 1
Tensor dropout(const Tensor& x, const Tensor& key,
               double probability);  // what is kept is scaled by 1 / (1 - probability)

// ---- contractions
struct DotAxes {
  Axes x_batch, y_batch, x_contract, y_contract;
};
// Output: batch axes, then the other axes of x, then those of y.
Tensor dot_general(const Tensor& x, const Tensor& y, const DotAxes& axes,
                   const Computing& computing TRANSOM_DEFAULT({}), std::optional<DType> dtype = std::nullopt);
// As NumPy's, batch axes broadcast.
Tensor matmul(const Tensor& x, const Tensor& y, const Computing& computing TRANSOM_DEFAULT({}));
// NumPy's einsum: "bij,bjk->bik", "ii", "...i,...i->..."; without an arrow the result has the indices that come once,
// in the order of the alphabet.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
              const Computing& computing TRANSOM_DEFAULT({}));
// x [..., K], weight [N, K], bias [N] or undefined -> [..., N]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias TRANSOM_DEFAULT({}),
              const Computing& computing TRANSOM_DEFAULT({}));

struct ConvolutionOptions {
  Axes strides, low, high, dilations;  // one number a spatial axis; empty: 1, 0, 0, 1
  int64_t groups = 1;
};
// x [N, C, spatial...], weight [O, C / groups, window...]
Tensor convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options TRANSOM_DEFAULT({}),
                   const Computing& computing TRANSOM_DEFAULT({}));

struct PoolingOptions {
  Axes window, strides, low, high;  // one number a spatial axis; empty strides: the window's extents; empty padding: 0
};
// x [N, C, spatial...]; the last windows are dropped where they do not fit.
Tensor max_pool(const Tensor& x, const PoolingOptions& options);
Tensor average_pool(const Tensor& x, const PoolingOptions& options);  // padding does not count

// ---- composites: a device may run them as one kernel
struct AttentionOptions {
  double scale;                // of the products of queries and keys
  bool causal = true;          // query i of T attends to the keys up to position i + S - T
  int64_t sliding_window = 0;  // the maximum number of keys of a query; 0: all
  double soft_cap = 0;         // scores become cap tanh(score / cap); 0: unchanged
};
// The lowest bfloat16, added to masked scores: finite in every type that scores are computed in, so that a row whose
// keys are all masked stays finite (it is the mean of all values).
constexpr double kMaskedScore = -3.3895313892515355e38;
// Scaled dot-product attention (Vaswani et al., 2017) of grouped heads (Ainslie et al., 2023): q [B, T, H, d], k [B, S,
// G, d], v [B, S, G, e], where H is a multiple of G; bias is added to the scores and broadcasts to [B, H, T, S], or is
// undefined. Weights are dropped out with probability `dropout` by `key`. -> [B, T, H, e]
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& options,
                 const Computing& computing TRANSOM_DEFAULT({}), const Tensor& key = {}, double dropout = 0);
// Attention to keys and values in blocks of a pool (Kwon et al., 2023): q [B, T, H, d] are the last T of
// lengths[b] tokens of each row; token s of row b is in block block_table[b][s / size] of k_blocks [N, size, G, d]
// and v_blocks [N, size, G, e]. -> [B, T, H, e]. `options` as of attention; it is causal.
Tensor paged_attention(const Tensor& q, const Tensor& k_blocks, const Tensor& v_blocks, const Tensor& block_table,
                       const Tensor& lengths, const AttentionOptions& options,
                       const Computing& computing TRANSOM_DEFAULT({}));
Tensor softmax(const Tensor& x, const Computing& computing TRANSOM_DEFAULT({}));      // over the last axis
Tensor log_softmax(const Tensor& x, const Computing& computing TRANSOM_DEFAULT({}));  // over the last axis
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon,
                  const Computing& computing TRANSOM_DEFAULT({}));
Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon, const Computing& computing TRANSOM_DEFAULT({}));
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       // with erf
Tensor gelu_tanh(const Tensor& x);  // the approximation with tanh
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x);
// An activation by its name in config.json ("gelu", "gelu_new", "relu", "silu", ...); refuses unknown ones by name.
Tensor activation(std::string_view name, const Tensor& x);
// -log softmax(logits)[label] for each row: logits [N, C], labels i64 [N] -> [N]; rows whose label is ignore_index give
// 0.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, int64_t ignore_index TRANSOM_DEFAULT(-100),
                     const Computing& computing TRANSOM_DEFAULT({}));

}  // namespace transom
