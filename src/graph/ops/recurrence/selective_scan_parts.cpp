// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/recurrence/selective_scan_parts.h"

#include <algorithm>

namespace transom {
Tensor in_chunks(const Tensor& x, int64_t chunks, int64_t tokens) {
  Shape shape = x.shape();
  Axes low(shape.size(), 0), high(shape.size(), 0), order{0, 3, 1, 2};
  high[1] = chunks * tokens - shape[1];
  const Tensor filled = high[1] == 0 ? x : pad(x, low, high);
  shape[1] = tokens;
  shape.insert(shape.begin() + 1, chunks);
  for (int64_t axis = 4; axis < static_cast<int64_t>(shape.size()); ++axis) order.push_back(axis);
  return permute(reshape(filled, shape), order);
}

void expect_scan(const Inference& in, size_t rows) {
  expect_floating(in, 0);
  for (size_t i = 1; i < 6; ++i) expect_same_types(in, 0, i);
  const Shape& x = in.shape(0);
  check(in, x.size() == rows + 2, "expected x of {} axes, found {}", rows + 2, x);
  for (const int64_t extent : x) check(in, extent >= 1, "expected x with elements, found {}", x);
  const Shape tokens(x.begin(), x.begin() + static_cast<ptrdiff_t>(rows));
  const auto behind = [&](std::initializer_list<int64_t> extents) {
    Shape shape = tokens;
    shape.insert(shape.end(), extents);
    return shape;
  };
  const int64_t H = x[rows], P = x[rows + 1];
  check(in, in.shape(1) == behind({H}), "expected dt of {} beside x of {}, found {}", behind({H}), x, in.shape(1));
  const Shape& b = in.shape(3);
  check(in, b.size() == rows + 2 && b[rows] >= 1 && b[rows + 1] >= 1 && H % b[rows] == 0,
        "expected b of {}, of groups that {} heads share, found {}", behind({1, 1}), H, b);
  const int64_t S = b[rows + 1];
  check(in, b == behind({b[rows], S}) && in.shape(4) == b, "expected b and c of {}, found {} and {}",
        behind({b[rows], S}), b, in.shape(4));
  const Shape& a = in.shape(2);
  check(in, a == Shape{H, S} || a == Shape{H, 1}, "expected rates of {} or {}, found {}", Shape{H, S}, Shape{H, 1}, a);
  const Shape& state = in.shape(5);
  check(in, state.size() == 4 && state[1] == H && state[2] == P && state[3] == S,
        "expected a state of {} for each row, found {}", Shape{H, P, S}, state);
}

Tensor of_heads(const Tensor& x, int64_t heads) {
  Shape shape = x.shape();
  const size_t axis = shape.size() - 2;
  const int64_t groups = shape[axis];
  if (groups == heads) return x;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis) + 1, heads / groups);
  const Tensor all = broadcast_to(unsqueeze(x, static_cast<int64_t>(axis) + 1), shape);
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis) + 1);
  shape[axis] = heads;
  return reshape(all, shape);
}

Tensor decay_between(const Tensor& reached, const Tensor& seen) {
  const int64_t last = reached.rank();
  Shape pairs = reached.shape();
  pairs.push_back(reached.dim(last - 1));
  const Tensor all = broadcast_to(seen, pairs), none = zeros(pairs, reached.dtype());
  const Tensor between =
      broadcast_to(unsqueeze(reached, last), pairs) - broadcast_to(unsqueeze(reached, last - 1), pairs);
  // What is not seen has no bound: its exponential is not computed.
  return select(all, exp(select(all, between, none)), none);
}

Scanned chunked_scan(const Tensor& v, const Tensor& rates, const Tensor& k, const Tensor& q, const Tensor& state) {
  const int64_t B = v.dim(0), T = v.dim(1), H = v.dim(2), P = v.dim(3);
  const int64_t L = std::min(T, kScanChunk), n = (T + L - 1) / L;
  const Tensor values = in_chunks(v, n, L), keys = in_chunks(k, n, L), queries = in_chunks(q, n, L);
  const Tensor reached = cumulative_sum(in_chunks(rates, n, L), 3);  // [B, H, n, L]
  const auto column = [](const Tensor& x) { return unsqueeze(x, 4); };
  // Within a chunk: token t reads what token s <= t has written.
  const Tensor seen = less_equal(iota({L, L}, 1), iota({L, L}, 0));
  const Tensor scores = matmul(queries, transpose(keys, 3, 4), {}) * decay_between(reached, seen);
  Tensor y = matmul(scores, values, {});  // [B, H, n, L, P]
  // What a chunk adds to the state, and what of the state is left behind it.
  const Tensor end = slice(reached, 3, L - 1, L);                                               // [B, H, n, 1]
  const Tensor added = matmul(transpose(values, 3, 4), keys * column(exp(end - reached)), {});  // [B, H, n, P, S]
  const Tensor left = exp(end);
  std::vector<Tensor> starts;
  Tensor h = state;
  for (int64_t i = 0; i < n; ++i) {
    starts.push_back(unsqueeze(h, 2));
    h = h * unsqueeze(squeeze(slice(left, 2, i, i + 1), 2), 3) + squeeze(slice(added, 2, i, i + 1), 2);
  }
  y = y + matmul(queries * column(exp(reached)), transpose(concatenate(starts, 2), 3, 4), {});
  y = reshape(permute(y, {0, 2, 3, 1, 4}), {B, n * L, H, P});
  return {n * L == T ? y : slice(y, 1, 0, T), h};
}

Tensor all_states(const Tensor& inputs, const Tensor& decays, const Tensor& state) {
  Shape first = decays.shape();
  first[1] = 1;
  Tensor reached = concatenate({zeros(first, decays.dtype()), decays}, 1);
  Tensor states = concatenate({unsqueeze(state, 1), inputs}, 1);
  const int64_t n = states.dim(1);
  const auto later = [](const Tensor& x, int64_t places) {
    Axes low(x.shape().size(), 0), high(x.shape().size(), 0);
    low[1] = places;
    return pad(slice(x, 1, 0, x.dim(1) - places), low, high);
  };
  for (int64_t places = 1; places < n; places *= 2) {
    states = states + reached * later(states, places);
    if (2 * places < n) reached = reached * later(reached, places);
  }
  return states;
}

}  // namespace transom
