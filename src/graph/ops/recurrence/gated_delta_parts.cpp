// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/recurrence/gated_delta_parts.h"

#include "graph/ops/recurrence/selective_scan_parts.h"

namespace transom {

void expect_delta_rule(const Inference& in, size_t rows) {
  expect_floating(in, 0);
  for (size_t i = 1; i < 6; ++i) expect_same_types(in, 0, i);
  const Shape& v = in.shape(0);
  check(in, v.size() == rows + 2, "expected v of {} axes, found {}", rows + 2, v);
  for (const int64_t extent : v) check(in, extent >= 1, "expected v with elements, found {}", v);
  const int64_t H = v[rows], P = v[rows + 1];
  const auto tokens = static_cast<ptrdiff_t>(rows);
  Shape heads(v.begin(), v.begin() + tokens);
  heads.push_back(H);
  for (const size_t i : {1, 2})
    check(in, in.shape(i) == heads, "expected {} of {} beside v of {}, found {}", i == 1 ? "rates" : "beta", heads, v,
          in.shape(i));
  const Shape& k = in.shape(3);
  check(in,
        k.size() == rows + 2 && std::equal(v.begin(), v.begin() + tokens, k.begin()) && k[rows] >= 1 &&
            k[rows + 1] >= 1 && H % k[rows] == 0,
        "expected k of the tokens of v {}, of heads that {} heads share, found {}", v, H, k);
  check(in, in.shape(4) == k, "expected k and q of {}, found q of {}", k, in.shape(4));
  const Shape& state = in.shape(5);
  check(in, state.size() == 4 && state[1] == H && state[2] == P && state[3] == k[rows + 1],
        "expected a state of {} for each row, found {}", Shape{H, P, k[rows + 1]}, state);
}

Tensor inverse_of_unit_lower(const Tensor& x) {
  const int64_t n = x.dim(x.rank() - 1);
  const Shape square{n, n};
  const Tensor rows = iota(square, 0), columns = iota(square, 1);
  const auto same_block = [&](int64_t size) {
    const Tensor by = full(square, static_cast<double>(size), DType::kInt64);
    return equal(div(rows, by), div(columns, by));
  };
  const Tensor none = zeros(x.shape(), x.dtype());
  Tensor inverse = broadcast_to(cast(equal(rows, columns), x.dtype()), x.shape());
  for (int64_t size = 1; size < n; size *= 2) {
    const Tensor between = logical_and(same_block(2 * size), logical_not(same_block(size)));
    const Tensor lower = select(broadcast_to(between, x.shape()), x, none);
    inverse = inverse - (size == 1 ? lower : matmul(matmul(inverse, lower, {}), inverse, {}));
  }
  return inverse;
}

DeltaSystem delta_system(const Tensor& keys, const Tensor& beta, const Tensor& reached, const Tensor& seen) {
  const int64_t n = keys.dim(keys.rank() - 2), last = reached.rank();
  Shape pairs = reached.shape();
  pairs.push_back(n);
  const Tensor none = zeros(pairs, keys.dtype()), decay = decay_between(reached, seen);
  const Shape square{n, n};
  const Tensor before = broadcast_to(logical_not(equal(iota(square, 0), iota(square, 1))), pairs);
  const Tensor products = matmul(keys, transpose(keys, keys.rank() - 2, keys.rank() - 1), {});
  return {decay, inverse_of_unit_lower(select(before, products * decay * unsqueeze(beta, last), none))};
}

}  // namespace transom
