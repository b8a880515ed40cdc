// SPDX-License-Identifier: Apache-2.0
// Recurrences of tokens of any texts, whose states lie in a pool. A device that supports them takes the tokens one
// after the other; elsewhere each token finds the one before it, and sums reach twice as far each time.
#include "graph/ops/recurrence/paged_places.h"
#include "graph/ops/recurrence/selective_scan_parts.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

const Operation kPagedSelectiveScan = {
    .name = "paged_selective_scan",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [N, H, P], dt [N, H], a [H, S] or [H, 1], b [N, G, S], c [N, G, S], pool [R, H, P, S], from [N], to [N]): "
        "(pool, y [N, H, P]) of selective_scan, where token n goes on from the state in row from[n] of the pool, as "
        "the tokens before it have left it (of zeros if negative), and leaves its own in row to[n] (nowhere if "
        "negative).",
    .in_place = 5,
    .error = ErrorBounds{{ErrorScale::kTensor, 256}, {ErrorScale::kTensor, 16}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 8);
      expect_scan(in, 1);
      expect_places(in, 6, in.shape(0)[0]);
      return {in.inputs[5], in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const Tensor x = widened(in[0]), dt = widened(in[1]), a = widened(in[2]), pool = widened(in[5]);
      const int64_t N = x.dim(0), H = x.dim(1);
      const Tensor b = of_heads(widened(in[3]), H), c = of_heads(widened(in[4]), H);
      Tensor decay = unsqueeze(exp(unsqueeze(dt, 2) * a), 2);               // [N, H, 1, S or 1]
      Tensor state = unsqueeze(x * unsqueeze(dt, 2), 3) * unsqueeze(b, 2);  // [N, H, P, S]
      Tensor before = tokens_before(in[6], in[7]);
      state = state + decay * rows_where(logical_not(is_there(before)), rows_at(pool, in[6]));
      for (int64_t places = 1; places < N; places *= 2) {
        state = state + decay * rows_at(state, before);
        decay = decay * rows_at(decay, before);
        const Tensor next = gather(before, at_least_zero(before), 0);
        before = select(is_there(before), next, before);
      }
      const Tensor y = reduce_sum(state * unsqueeze(c, 2), {3});
      return {scatter(in[5], in[7], cast(state, in[5].dtype())), cast(y, in[0].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const bool one_rate : {true, false}) {
          const int64_t N = 7, H = 4, P = one_rate ? 3 : 1, G = 2, S = 5, R = 4;
          samples.push_back({{{dtype, {N, H, P}},
                              {dtype, {N, H}},
                              {dtype, {H, one_rate ? 1 : S}},
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

const Operation kPagedConvolution = {
    .name = "paged_convolution",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [N, C], weight [C, K], pool [R, K - 1, C], from [N], to [N]): (pool, y [N, C]) with y_n the sum over k of "
        "weight[:, K - 1 - k] x_(n - k), k tokens before n in its text. Row from[n] of the pool, as the tokens before "
        "it have left it, holds the last inputs before token n, the newest behind (zeros if negative); its own are "
        "left in row to[n] (nowhere if negative).",
    .in_place = 2,
    .error = ErrorBounds{{ErrorScale::kTensor, 32}, {ErrorScale::kTensor, 8}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 5);
      expect_floating(in, 0);
      for (const size_t i : {1, 2}) expect_same_types(in, 0, i);
      check(in, in.rank(0) == 2 && in.shape(0)[0] >= 1, "expected x [N, C], found {}", in.shape(0));
      const int64_t C = in.shape(0)[1];
      check(in, in.rank(1) == 2 && in.shape(1)[0] == C && in.shape(1)[1] >= 2,
            "expected a weight of [{}, 2 or more], found {}", C, in.shape(1));
      const int64_t K = in.shape(1)[1];
      check(in, in.rank(2) == 3 && in.shape(2)[1] == K - 1 && in.shape(2)[2] == C,
            "expected a pool of [R, {}, {}], found {}", K - 1, C, in.shape(2));
      expect_places(in, 3, in.shape(0)[0]);
      return {in.inputs[2], in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const Tensor x = widened(in[0]), weight = widened(in[1]), pool = widened(in[2]);
      const int64_t N = x.dim(0), C = x.dim(1), K = weight.dim(1);
      const Tensor before = tokens_before(in[3], in[4]), begin = reshape(rows_at(pool, in[3]), {N * (K - 1), C});
      // Input k tokens before, of the pass or, `behind` places behind the newest, of the state of the text's first
      // token in it.
      Tensor current = iota({N}, 0), behind = zeros({N}, DType::kInt64);
      std::vector<Tensor> inputs{x};
      for (int64_t k = 1; k < K; ++k) {
        const Tensor inside = equal(behind, zeros({N}, DType::kInt64));
        const Tensor next = gather(before, current, 0), goes_on = logical_and(inside, is_there(next));
        current = select(goes_on, next, current);
        behind = select(goes_on, behind, behind + 1.0);
        const Tensor kept =
            gather(begin, at_least_zero(current * static_cast<double>(K - 1) + static_cast<double>(K - 1) - behind), 0);
        inputs.push_back(rows_where(goes_on, gather(x, current, 0), kept));
      }
      const auto tap = [&](int64_t k) { return squeeze(slice(weight, 1, K - 1 - k, K - k), 1); };
      Tensor y = inputs[static_cast<size_t>(K - 1)] * tap(K - 1);
      for (int64_t k = K - 2; k >= 0; --k) y = y + inputs[static_cast<size_t>(k)] * tap(k);
      Tensors last;
      for (int64_t k = K - 2; k >= 0; --k) last.push_back(unsqueeze(inputs[static_cast<size_t>(k)], 1));
      return {scatter(in[2], in[4], cast(concatenate(last, 1), in[2].dtype())), cast(y, in[0].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const int64_t K : {2, 4})
          samples.push_back(
              {{{dtype, {9, 5}}, {dtype, {5, K}}, {dtype, {4, K - 1, 5}}, {DType::kInt64, {9}}, {DType::kInt64, {9}}},
               {},
               -1,
               1,
               4});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredPagedStates{&kPagedSelectiveScan, &kPagedConvolution};

namespace op {
const Operation& paged_selective_scan = kPagedSelectiveScan;
const Operation& paged_convolution = kPagedConvolution;
}  // namespace op

Scanned paged_selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                             const StatePlaces& places) {
  std::vector<Tensor> made = make_tensors(kPagedSelectiveScan, {x, dt, a, b, c, places.pool, places.from, places.to});
  return {made[1], made[0]};
}

Scanned paged_convolution(const Tensor& x, const Tensor& weight, const StatePlaces& places) {
  std::vector<Tensor> made = make_tensors(kPagedConvolution, {x, weight, places.pool, places.from, places.to});
  return {made[1], made[0]};
}

}  // namespace transom
