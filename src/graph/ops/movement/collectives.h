// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/ops/records.h"
#include "transom/ops.h"

namespace transom {

// Collectives of one graph run in the order of `order`, which every process must give them alike. Those of a forward
// pass have orders below 2^32. Gradients run them in the opposite order behind that: the gradient of one of order n has
// kBackwardOrder - n. What uses gradients begins at kAfterBackward.
constexpr int64_t kBackwardOrder = int64_t{1} << 33;
constexpr int64_t kAfterBackward = kBackwardOrder + 1;

// x summed over the processes of the group, on each of them (see Device::join); x itself where there is one process.
// `group`: the ranks that take part, rising; none named: all.
Tensor all_reduce(const Tensor& x, int64_t order, const Axes& group = {});
// x split along axis 0 into one part for each of the `processes` of the group: part i goes to the process of rank i in
// it; the result is the parts that they have for this one, by rank.
Tensor all_to_all(const Tensor& x, int64_t processes, int64_t order, const Axes& group = {});
// The x of all processes of the group, one behind the other along axis 0, by rank.
Tensor all_gather(const Tensor& x, int64_t processes, int64_t order, const Axes& group = {});
// x summed over the processes of the group and split along axis 0: each gets the part of its rank.
Tensor reduce_scatter(const Tensor& x, int64_t processes, int64_t order, const Axes& group = {});
// x goes to the process `shift` places behind this one in the group, around its end; the result is what comes here,
// which has this shape. Neither may be empty. Where `after` is given, nothing is sent before it is computed, so that
// what comes is not held for longer than need be.
Tensor collective_permute(const Tensor& x, int64_t processes, int64_t shift, const Shape& shape, int64_t order,
                          const Axes& group = {}, const Tensor& after = {});

namespace op {
extern const Operation& collective_permute;
extern const Operation &all_to_all, &all_gather, &reduce_scatter;
}  // namespace op

}  // namespace transom
