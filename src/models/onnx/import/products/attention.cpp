// SPDX-License-Identifier: Apache-2.0
// Attention and what stands around it: rotary embeddings, linear attention.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [B, T, H * d] -> [B, H, T, d]
Tensor heads_apart(const Call& call, const Tensor& x, int64_t heads) {
  if (x.rank() == 4) return x;
  call.require(x.rank() == 3 && heads > 0 && x.dim(2) % heads == 0, "the heads do not fit its input");
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

// What is added to the scores [B, H, T, S]: 0 or -infinity, or the numbers of a mask. Undefined: nothing.
struct Bias {
  Tensor value;
  void allow_only(const Tensor& allowed, DType dtype) {
    add_to(select(allowed, constant(0, dtype), constant(-kInfinity, dtype)));
  }
  void add_to(const Tensor& more) { value = value.defined() ? add(value, more) : more; }
};

Bias bias_of(const Call& call, const Tensor& q, int64_t S, int64_t past) {
  const DType dtype = wide_type(q.dtype());
  const int64_t B = q.dim(0), T = q.dim(2);
  Bias bias;
  if (call.has(3)) {
    Tensor mask = call.tensor(3);
    call.require(mask.rank() >= 1 && mask.rank() <= 4 && mask.dim(-1) <= S, "the mask does not fit");
    const bool choice = mask.dtype() == DType::kBool;
    if (mask.dim(-1) < S) {  // what it does not reach is not seen
      Shape rest = mask.shape();
      rest.back() = S - mask.dim(-1);
      const Tensor unseen = choice ? zeros(rest, DType::kBool) : full(rest, -kInfinity, mask.dtype());
      mask = concatenate({mask, unseen}, -1);
    }
    if (choice) bias.allow_only(mask, dtype);
    else bias.add_to(cast(mask, dtype));
  }
  // Query i stands at `offset` + i among the keys.
  Tensor offset = integer(past);
  if (call.has(6)) {
    const Tensor lengths = reshape(cast(call.tensor(6), DType::kInt64), {B, 1, 1, 1});
    bias.allow_only(less(iota({1, 1, 1, S}, 3), lengths), dtype);
    offset = sub(lengths, integer(T));
  }
  const Tensor distance = sub(add(iota({1, 1, T, S}, 2), offset), iota({1, 1, T, S}, 3));
  const int64_t left = call.integer("left_window_size", -1), right = call.integer("right_window_size", -1);
  if (call.integer("is_causal", 0) != 0) bias.allow_only(greater_equal(distance, integer(0)), dtype);
  if (left >= 0) bias.allow_only(less_equal(distance, integer(left)), dtype);
  if (right >= 0) bias.allow_only(greater_equal(distance, integer(-right)), dtype);
  return bias;
}

// Softmax over the last axis in which a row that sees nothing is zero.
Tensor masked_softmax(const Tensor& scores, const Tensor& bias, const Computing& computing) {
  if (!bias.defined()) return softmax(scores, computing);
  const Tensor none = less_equal(reduce_max(bias, {-1}, true), constant(-kInfinity, bias.dtype()));
  const Tensor visible = select(none, constant(0, scores.dtype()), scores);
  return select(none, constant(0, scores.dtype()), softmax(visible, computing));
}

// Of [B, H, T, S], or 1 in place of an extent.
Tensor of_four_axes(const Tensor& x) {
  Shape shape(static_cast<size_t>(4 - x.rank()), 1);
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  return reshape(x, shape);
}

// The composite that devices run in blocks; a query that sees nothing gets zeros. [B, heads, places, d] -> [B, T, H, e]
Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& given_bias,
                const AttentionOptions& options, const Computing& computing) {
  const auto places_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const Tensor bias = given_bias.defined() ? of_four_axes(given_bias) : Tensor();
  const Tensor y = attention(places_first(q), places_first(k), places_first(v), bias, options, computing);
  if (!bias.defined()) return y;
  const Tensor none = less_equal(reduce_max(bias, {-1}, true), constant(-kInfinity, bias.dtype()));
  return select(places_first(none), constant(0, y.dtype()), y);
}

Results attention_operator(Call& call) {
  const bool packed = call.tensor(0).rank() == 3;
  const int64_t q_heads = call.integer("q_num_heads", 0), kv_heads = call.integer("kv_num_heads", 0);
  const Tensor q = heads_apart(call, call.tensor(0), q_heads);
  Tensor k = heads_apart(call, call.tensor(1), kv_heads), v = heads_apart(call, call.tensor(2), kv_heads);
  call.require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "expected tensors of rank 3 or 4");
  call.require(call.has(4) == call.has(5), "expected past_key and past_value, or neither");
  const int64_t past = call.has(4) ? call.tensor(4).dim(2) : 0;
  if (call.has(4)) {
    k = concatenate({call.tensor(4), k}, 2);
    v = concatenate({call.tensor(5), v}, 2);
  }
  const int64_t B = q.dim(0), H = q.dim(1), T = q.dim(2), d = q.dim(3), G = k.dim(1), S = k.dim(2);
  call.require(G > 0 && H % G == 0 && v.dim(1) == G && v.dim(2) == S && k.dim(3) == d && k.dim(0) == B,
               "its inputs do not fit together");
  const double scale = call.number("scale", 0) != 0 ? call.number("scale", 0) : 1 / std::sqrt(static_cast<double>(d));
  const double cap = call.number("softcap", 0);
  const bool causal = call.integer("is_causal", 0) != 0;
  Results results(4);
  results[1] = {call.type(1), k};
  results[2] = {call.type(2), v};
  Tensor y;
  // Not where the scores are asked for: the composite keeps none.
  if (!call.wants(3) && q.dtype() == v.dtype()) {
    const bool masked = call.has(3) || call.has(6) || call.integer("left_window_size", -1) >= 0 ||
                        call.integer("right_window_size", -1) >= 0 || (causal && S != T + past);
    const Tensor bias = masked ? bias_of(call, q, S, past).value : Tensor();
    y = attended(q, k, v, bias, {.scale = scale, .causal = causal && !masked, .sliding_window = 0, .soft_cap = cap},
                 call.computing());
    if (packed) return {call.like(0, reshape(y, {B, T, H * v.dim(3)})), results[1], results[2]};
    return {call.like(0, permute(y, {0, 2, 1, 3})), results[1], results[2]};
  }
  const DType dtype = wide_type(q.dtype());
  const auto grouped = [&](const Tensor& x) {  // each head of keys for its queries
    const Tensor repeated = broadcast_to(unsqueeze(x, 2), {B, G, H / G, S, x.dim(3)});
    return cast(reshape(repeated, {B, H, S, x.dim(3)}), dtype);
  };
  const Tensor raw = matmul(cast(q, dtype), transpose(grouped(k), 2, 3), call.computing()) * scale;
  const Tensor capped = cap > 0 ? tanh(raw / cap) * cap : raw;
  const Bias bias = bias_of(call, q, S, past);
  const Tensor biased = bias.value.defined() ? add(capped, bias.value) : capped;
  const Tensor weights = cast(masked_softmax(biased, bias.value, call.computing()), q.dtype());
  y = cast(matmul(cast(weights, dtype), grouped(v), call.computing()), q.dtype());
  const int64_t shown = call.integer("qk_matmul_output_mode", 0);
  // From opset 24 on 1 is after the soft cap and 2 with the bias; 23 has them the other way round.
  const Tensor& scores = shown == 0 ? raw : shown == 1 ? capped : shown == 2 ? biased : weights;
  results[3] = {call.type(0), cast(scores, q.dtype())};
  results[0] = {call.type(0), packed ? reshape(permute(y, {0, 2, 1, 3}), {B, T, H * v.dim(3)}) : y};
  return results;
}

Results rotary_embedding(Call& call) {
  const Tensor& given = call.tensor(0);
  const bool packed = given.rank() == 3;
  const Tensor x = heads_apart(call, given, call.integer("num_heads", 0));
  call.require(x.rank() == 4, "expected a tensor of rank 3 or 4");
  const int64_t B = x.dim(0), H = x.dim(1), T = x.dim(2), d = x.dim(3);
  const int64_t p = call.integer("rotary_embedding_dim", 0) > 0 ? call.integer("rotary_embedding_dim", 0) : d;
  call.require(p <= d && p % 2 == 0, "rotary_embedding_dim does not fit its input");
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const DType dtype = wide_type(x.dtype());
  const auto angles = [&](size_t input) {
    Tensor table = call.tensor(input);
    if (call.has(3)) table = gather(table, call.tensor(3), 0);
    call.require(table.rank() == 3 && table.dim(2) == p / 2, "the tables do not fit its input");
    return cast(unsqueeze(table, 1), dtype);  // [B, 1, T, p / 2]
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const Tensor turned = cast(slice(x, 3, 0, p), dtype);
  Tensor a, b;
  if (interleaved) {
    const Tensor pairs = reshape(turned, {B, H, T, p / 2, 2});
    a = squeeze(slice(pairs, 4, 0, 1), 4), b = squeeze(slice(pairs, 4, 1, 2), 4);
  } else {
    a = slice(turned, 3, 0, p / 2), b = slice(turned, 3, p / 2, p);
  }
  const Tensor real = sub(mul(cosine, a), mul(sine, b)), imaginary = add(mul(sine, a), mul(cosine, b));
  Tensor y = interleaved ? reshape(concatenate({unsqueeze(real, 4), unsqueeze(imaginary, 4)}, 4), {B, H, T, p})
                         : concatenate({real, imaginary}, 3);
  y = cast(y, x.dtype());
  if (p < d) y = concatenate({y, slice(x, 3, p, d)}, 3);
  if (packed) y = reshape(permute(y, {0, 2, 1, 3}), given.shape());
  return {call.like(0, y)};
}

// A state [B, G, dk, dv] that each token changes and reads, one after the other.
Results linear_attention(Call& call) {
  const int64_t H = call.integer("q_num_heads"), G = call.integer("kv_num_heads");
  call.require(H > 0 && G > 0 && H % G == 0, "the heads do not fit together");
  const DType dtype = wide_type(call.tensor(0).dtype());
  const Tensor q = cast(heads_apart(call, call.tensor(0), H), dtype),
               k = cast(heads_apart(call, call.tensor(1), G), dtype),
               v = cast(heads_apart(call, call.tensor(2), G), dtype);
  const int64_t B = q.dim(0), T = q.dim(2), dk = k.dim(3), dv = v.dim(3);
  call.require(q.dim(3) == dk && k.dim(2) == T && v.dim(2) == T, "its inputs do not fit together");
  if (T > 4096) call.not_supported("more than 4096 tokens");
  const std::string rule = call.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  call.require(gated || delta || rule == "linear", "the update_rule is unknown");
  const double given_scale = call.number("scale", 0);
  const double scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<double>(dk));
  Tensor state = call.has(3) ? cast(call.tensor(3), dtype) : zeros({B, G, dk, dv}, dtype);
  // decay [B, T, G * dk] or [B, T, G], beta [B, T, G] or [B, T, 1]: [B, G, T, 1 or dk]
  const auto by_head = [&](size_t input) {
    const Tensor& x = call.tensor(input);
    const int64_t heads = x.dim(2) % G == 0 ? G : 1;
    return cast(permute(reshape(x, {B, T, heads, x.dim(2) / heads}), {0, 2, 1, 3}), dtype);
  };
  Tensor decay, rate;
  if (gated) decay = exp(by_head(4));
  if (delta) rate = by_head(5);
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < T; ++t) {
    const auto now = [&](const Tensor& x) { return slice(x, 2, t, t + 1); };  // [B, heads, 1, d]
    const Tensor key = transpose(now(k), 2, 3);                               // [B, G, dk, 1]
    if (gated) state = mul(state, transpose(now(decay), 2, 3));
    Tensor value = now(v);
    if (delta) value = mul(now(rate), sub(value, matmul(now(k), state, call.computing())));
    state = add(state, mul(key, value));
    const Tensor shared = reshape(broadcast_to(unsqueeze(state, 2), {B, G, H / G, dk, dv}), {B, H, dk, dv});
    outputs.push_back(matmul(now(q), shared, call.computing()) * scale);  // [B, H, 1, dv]
  }
  const Tensor y = outputs.empty() ? zeros({B, H, 0, dv}, dtype) : concatenate(outputs, 2);
  const ElementType kept = call.has(3) ? call.type(3) : call.type(0);
  return {call.like(0, cast(reshape(permute(y, {0, 2, 1, 3}), {B, T, H * dv}), call.tensor(0).dtype())),
          {kept, cast(state, *info(kept).carrier)}};
}

}  // namespace

const RegisterOperators kAttention = {{"Attention", attention_operator, 23},
                                      {"RotaryEmbedding", rotary_embedding, 23},
                                      {"LinearAttention", linear_attention, 27}};

}  // namespace transom::onnx
