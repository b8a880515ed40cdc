// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient by a vendor's library (cuDNN), where one is found. What it does not take is computed by
// the kernels of lowering/lower_attention.cpp and lower_attention_gradient.cpp.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gpu/api/api.h"
#include "transom/device_plugin.h"

namespace transom::gpu {

// out [batch, queries, heads, head] = softmax(scale q k + bias) v, of q like out, and k, v [batch, keys, key_heads,
// head]; all dense. Scores and sums are of f32, weights are rounded to `dtype`. The gradient gives dq, dk and dv of
// dout; the bias has none.
struct AttentionShape {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, head = 0;
  bool causal = false;  // query t sees the keys to t
  transom_dtype dtype = TRANSOM_BFLOAT16;
  // Extents of the bias, f32 [.., .., .., keys], for batch, heads and queries: all or 1. All 0: there is none.
  std::array<int64_t, 3> bias = {};
  bool gradient = false;
  bool biased() const { return bias[0] > 0; }
  auto operator<=>(const AttentionShape&) const = default;
};

// How the library computes one shape. Who keeps it need not ask again.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual size_t workspace_bytes() const = 0;
};

// Any thread may call it.
class Attentions {
 public:
  virtual ~Attentions() = default;
  virtual const char* name() const = 0;  // "cudnn"
  // Null if the library does not compute it with the same bits at every run. The first question opens the library, and
  // each first one of a shape can take seconds, in which the library compiles a kernel for it; later ones are answered
  // from what is kept of the shapes asked for last.
  virtual std::shared_ptr<const AttentionPlan> plan(const AttentionShape& shape) = 0;
  // Adds it to the queue. `at`: q, k, v, out, the workspace, and the bias if there is one; of a gradient q, k, v, dout,
  // dq, dk, dv, the workspace, the bias; at multiples of 16 bytes, the workspace of 256. False if the library refuses:
  // the results are then to be computed by the own kernels.
  virtual bool run(Queue& queue, const AttentionPlan& plan, float scale, std::span<const void* const> at) = 0;
};

// Of the vendor whose plugin this is; null where it has none, or TRANSOM_GPU_PRODUCTS is `own`. `warn` is told once of
// each reason for which a shape that should fit is refused.
std::unique_ptr<Attentions> open_attentions(Context& context, std::function<void(const std::string&)> warn);

}  // namespace transom::gpu
