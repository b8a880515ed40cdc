// SPDX-License-Identifier: Apache-2.0
// The gated delta rule. A device may walk the tokens with a state at hand; elsewhere, and for gradients, it is products
// over chunks of tokens.
#include "graph/ops/recurrence/gated_delta_parts.h"
#include "graph/ops/recurrence/paged_places.h"
#include "graph/ops/recurrence/selective_scan_parts.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

constexpr ErrorBounds kDeltaError{{ErrorScale::kTensor, 256}, {ErrorScale::kTensor, 16}};

Tensor lower_triangle(int64_t n) { return less_equal(iota({n, n}, 1), iota({n, n}, 0)); }

// v [B, T, H, P], rates and beta [B, T, H], k and q of each head [B, T, H, S], state [B, H, P, S].
Scanned delta_in_chunks(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                        const Tensor& state) {
  const int64_t B = v.dim(0), T = v.dim(1), H = v.dim(2), P = v.dim(3);
  const int64_t L = std::min(T, kScanChunk), n = (T + L - 1) / L;
  const Tensor values = in_chunks(v, n, L), keys = in_chunks(k, n, L), queries = in_chunks(q, n, L),
               strength = in_chunks(beta, n, L);                     // [B, H, n, L, ...]
  const Tensor reached = cumulative_sum(in_chunks(rates, n, L), 3);  // [B, H, n, L]
  const auto column = [](const Tensor& x) { return unsqueeze(x, 4); };
  const DeltaSystem system = delta_system(keys, strength, reached, lower_triangle(L));
  const Tensor written = matmul(system.inverse, values * column(strength), {});
  const Tensor read = matmul(system.inverse, keys * column(strength * exp(reached)), {});
  const Tensor scores = matmul(queries, transpose(keys, 3, 4), {}) * system.decay;
  const Tensor asked = queries * column(exp(reached));
  const Tensor end = slice(reached, 3, L - 1, L), left = exp(end);  // [B, H, n, 1]
  const Tensor kept = keys * column(exp(end - reached));
  Tensors made;
  Tensor h = state;
  for (int64_t i = 0; i < n; ++i) {
    const auto chunk = [&](const Tensor& x) { return squeeze(slice(x, 2, i, i + 1), 2); };
    const Tensor back = transpose(h, 2, 3);  // [B, H, S, P]
    const Tensor u = chunk(written) - matmul(chunk(read), back, {});
    made.push_back(unsqueeze(matmul(chunk(asked), back, {}) + matmul(chunk(scores), u, {}), 2));
    h = h * unsqueeze(chunk(left), 3) + matmul(transpose(u, 2, 3), chunk(kept), {});
  }
  const Tensor y = reshape(permute(concatenate(made, 2), {0, 2, 3, 1, 4}), {B, n * L, H, P});
  return {n * L == T ? y : slice(y, 1, 0, T), h};
}

// Of tokens of any texts: one chunk, of which a token sees what is before it in its text.
Scanned delta_of_texts(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                       const StatePlaces& places) {
  const int64_t N = v.dim(0), H = v.dim(1), P = v.dim(2), S = k.dim(2);
  Tensor before = tokens_before(places.from, places.to), reached = rates;
  Tensor seen = cast(equal(iota({N, N}, 0), iota({N, N}, 1)), v.dtype());
  Tensor begin = rows_where(logical_not(is_there(before)), rows_at(places.pool, places.from));  // [N, H, P, S]
  for (int64_t count = 1; count < N; count *= 2) {
    reached = reached + rows_at(reached, before);
    seen = seen + rows_at(seen, before);
    begin = begin + rows_at(begin, before);
    before = select(is_there(before), gather(before, at_least_zero(before), 0), before);
  }
  const auto of_head = [](const Tensor& x) { return x.rank() == 3 ? permute(x, {1, 0, 2}) : permute(x, {1, 0}); };
  const Tensor keys = of_head(k), queries = of_head(q), reach = of_head(reached);
  const DeltaSystem system = delta_system(keys, of_head(beta), reach, less(zeros(seen.shape(), seen.dtype()), seen));
  const Tensor start = begin * unsqueeze(unsqueeze(exp(reached), 2), 3);  // what is left of it at each token
  const auto asked = [&](const Tensor& x) { return reduce_sum(start * unsqueeze(x, 2), {3}); };  // [N, H, P]
  const Tensor u = matmul(system.inverse, of_head((v - asked(k)) * unsqueeze(beta, 2)), {});     // [H, N, P]
  const Tensor scores = matmul(queries, transpose(keys, 1, 2), {}) * system.decay;
  const Tensor y = asked(q) + permute(matmul(scores, u, {}), {1, 0, 2});
  const Tensor added = reshape(unsqueeze(u, 3) * unsqueeze(keys, 2), {H, N, P * S});
  const Tensor state = start + permute(reshape(matmul(system.decay, added, {}), {H, N, P, S}), {1, 0, 2, 3});
  return {y, scatter(places.pool, places.to, state)};
}

std::vector<Sample> delta_samples() {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, int64_t B, int64_t T, int64_t H, int64_t P, int64_t G, int64_t S, double limit) {
    samples.push_back({{{dtype, {B, T, H, P}},
                        {dtype, {B, T, H}},
                        {dtype, {B, T, H}},
                        {dtype, {B, T, G, S}},
                        {dtype, {B, T, G, S}},
                        {dtype, {B, H, P, S}}},
                       {},
                       -limit,
                       limit});
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, 2, 5, 4, 3, 2, 9, 0.7);
    add(dtype, 1, 1, 2, 2, 1, 3, 0.7);
  }
  add(DType::kFloat32, 1, 67, 2, 2, 1, 3, 0.3);
  return samples;
}

const Operation kGatedDeltaRule = {
    .name = "gated_delta_rule",
    .kind = OperationKind::kComposite,
    .documentation =
        "(v [B, T, H, P], rates [B, T, H], beta [B, T, H], k [B, T, G, S], q [B, T, G, S], state [B, H, P, S]): "
        "h_t = a h_(t - 1) + beta_t (v_t - a h_(t - 1) k_t) k_t' with a = exp(rate_t) from the state on -> "
        "(y [B, T, H, P] with y_t = h_t q_t, h_T). G divides H; a group of heads has one k and q.",
    .autocast = AutocastClass::kFull,
    .error = kDeltaError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 6);
      expect_delta_rule(in, 2);
      check(in, in.shape(5)[0] == in.shape(0)[0], "expected a state for each of {} rows, found {}", in.shape(0)[0],
            in.shape(5));
      return {in.inputs[0], in.inputs[5]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const int64_t H = in[0].dim(2);
      const Scanned made = delta_in_chunks(widened(in[0]), widened(in[1]), widened(in[2]), of_heads(widened(in[3]), H),
                                           of_heads(widened(in[4]), H), widened(in[5]));
      return {cast(made.y, in[0].dtype()), cast(made.state, in[5].dtype())};
    },
    .samples = []() { return delta_samples(); }};

const Operation kPagedGatedDeltaRule = {
    .name = "paged_gated_delta_rule",
    .kind = OperationKind::kComposite,
    .documentation =
        "(v [N, H, P], rates [N, H], beta [N, H], k [N, G, S], q [N, G, S], pool [R, H, P, S], from [N], to [N]): "
        "(pool, y [N, H, P]) of gated_delta_rule, where token n goes on from the state in row from[n] of the pool, as "
        "the tokens before it have left it (of zeros if negative), and leaves its own in row to[n] (nowhere if "
        "negative).",
    .in_place = 5,
    .error = kDeltaError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 8);
      expect_delta_rule(in, 1);
      expect_places(in, 6, in.shape(0)[0]);
      return {in.inputs[5], in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const int64_t H = in[0].dim(1);
      const Scanned made = delta_of_texts(widened(in[0]), widened(in[1]), widened(in[2]), of_heads(widened(in[3]), H),
                                          of_heads(widened(in[4]), H), {widened(in[5]), in[6], in[7]});
      return {cast(made.state, in[5].dtype()), cast(made.y, in[0].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const int64_t N = 7, H = 4, P = 3, G = 2, S = 5, R = 4;
        samples.push_back({{{dtype, {N, H, P}},
                            {dtype, {N, H}},
                            {dtype, {N, H}},
                            {dtype, {N, G, S}},
                            {dtype, {N, G, S}},
                            {dtype, {R, H, P, S}},
                            {DType::kInt64, {N}},
                            {DType::kInt64, {N}}},
                           {},
                           -0.7,
                           0.7,
                           R});
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredGatedDelta{&kGatedDeltaRule, &kPagedGatedDeltaRule};

namespace op {
const Operation& gated_delta_rule = kGatedDeltaRule;
const Operation& paged_gated_delta_rule = kPagedGatedDeltaRule;
}  // namespace op

Scanned gated_delta_rule(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                         const Tensor& state) {
  std::vector<Tensor> made = make_tensors(kGatedDeltaRule, {v, rates, beta, k, q, state});
  return {made[0], made[1]};
}

Scanned paged_gated_delta_rule(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k,
                               const Tensor& q, const StatePlaces& places) {
  std::vector<Tensor> made =
      make_tensors(kPagedGatedDeltaRule, {v, rates, beta, k, q, places.pool, places.from, places.to});
  return {made[1], made[0]};
}

}  // namespace transom
