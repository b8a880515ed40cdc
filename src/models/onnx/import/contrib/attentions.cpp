// SPDX-License-Identifier: Apache-2.0
// Attention as ONNX Runtime's optimizer and its exporters of language models write it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/onnx/import/contrib/contrib.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// Heads of 3 axes: [B, T, H * d] -> [B, T, H, d]
Tensor split_heads(const Call& call, const Tensor& x, int64_t heads) {
  call.require(x.rank() == 3 && heads > 0 && x.dim(2) % heads == 0, "the heads do not fit its input");
  return reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
}
Tensor joined_heads(const Tensor& x) { return reshape(x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)}); }
Tensor heads_first(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }  // [B, T, H, d] and back

int64_t number_of_heads(const Call& call, std::string_view name) {
  const int64_t heads = call.integer(name);
  call.require(heads > 0 && heads <= 1 << 20, "the number of heads is impossible");
  return heads;
}

double scale_of(const Call& call, int64_t d) {
  const double given = call.number("scale", 0);
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(d));
}

// q [B, T, H, d], k and v [B, S, H, d], and what is added to the scores.
struct Scored {
  Tensor q, k, v, bias;
  DType dtype() const { return wide_type(q.dtype()); }
  void add_bias(const Tensor& more) {
    const Tensor own = cast(more, dtype());
    bias = bias.defined() ? add(bias, own) : own;
  }
};

// A mask as numbers to add: mask_filter_value where it hides a key. [B] counts the keys of each row, [2 B] says behind
// which and from which on there are any, [B, S] and [B, T, S] say it for each.
void add_mask(const Call& call, size_t input, Scored& s) {
  if (!call.has(input)) return;
  const Tensor& mask = call.tensor(input);
  const int64_t B = s.q.dim(0), T = s.q.dim(1), S = s.k.dim(1);
  Tensor seen;
  if (mask.rank() == 1 && (mask.dim(0) == B || mask.dim(0) == 2 * B)) {
    const Tensor place = iota({1, 1, 1, S}, 3), bounds = cast(mask, DType::kInt64);
    seen = less(place, reshape(slice(bounds, 0, 0, B), {B, 1, 1, 1}));
    if (mask.dim(0) == 2 * B)
      seen = logical_and(seen, greater_equal(place, reshape(slice(bounds, 0, B, 2 * B), {B, 1, 1, 1})));
  } else if (mask.rank() == 2 && mask.shape() == Shape{B, S}) {
    seen = greater(reshape(mask, {B, 1, 1, S}), constant(0, mask.dtype()));
  } else if (mask.rank() == 3 && mask.shape() == Shape{B, T, S}) {
    seen = greater(reshape(mask, {B, 1, T, S}), constant(0, mask.dtype()));
  } else {
    call.not_supported(
        fmt::format("a mask of {} beside {} rows of {} queries and {} keys", to_string(mask.shape()), B, T, S));
  }
  const double filter = call.number("mask_filter_value", -10000);
  s.add_bias(select(seen, constant(0, s.dtype()), constant(filter, s.dtype())));
}

void add_given_bias(const Call& call, size_t input, Scored& s) {
  if (!call.has(input)) return;
  const Tensor& bias = call.tensor(input);
  const int64_t B = s.q.dim(0), H = s.q.dim(2), T = s.q.dim(1), S = s.k.dim(1);
  call.require(bias.rank() == 4 && (bias.dim(0) == B || bias.dim(0) == 1) && (bias.dim(1) == H || bias.dim(1) == 1) &&
                   bias.dim(2) == T && bias.dim(3) == S,
               "attention_bias does not fit [batch, heads, queries, keys]");
  s.add_bias(bias);
}

// Scores above the diagonal that ends with the last query and key are the lowest number.
void add_causal(Scored& s) {
  const int64_t T = s.q.dim(1), S = s.k.dim(1);
  const Tensor distance = sub(add(iota({1, 1, T, S}, 2), integer(S - T)), iota({1, 1, T, S}, 3));
  s.add_bias(select(greater_equal(distance, integer(0)), constant(0, s.dtype()), constant(kMaskedScore, s.dtype())));
}

Tensor attended(const Call& call, const Scored& s) {
  const AttentionOptions options{.scale = scale_of(call, s.q.dim(3)), .causal = false};
  return attention(s.q, s.k, s.v, s.bias, options, call.computing());
}

// ---- Attention

// What past holds before the keys and values of now, and both together as `present` [2, B, H, S, d].
Value join_past(const Call& call, size_t past, size_t like, Scored& s) {
  if (call.has(past)) {
    const Tensor& given = call.tensor(past);
    call.require(given.rank() == 5 && given.dim(0) == 2 && given.dim(1) == s.k.dim(0) && given.dim(2) == s.k.dim(2) &&
                     given.dim(4) == s.k.dim(3) && s.v.dim(3) == s.k.dim(3),
                 "past does not fit [2, batch, heads, places, width]");
    const auto part = [&](int64_t i) { return heads_first(squeeze(slice(given, 0, i, i + 1), 0)); };
    s.k = concatenate({cast(part(0), s.k.dtype()), s.k}, 1);
    s.v = concatenate({cast(part(1), s.v.dtype()), s.v}, 1);
  }
  if (s.k.shape() != s.v.shape()) return {};
  const Tensor both = concatenate({unsqueeze(heads_first(s.k), 0), unsqueeze(heads_first(s.v), 0)}, 0);
  return {call.type(like), cast(both, call.tensor(like).dtype())};
}

// The three parts of a projection [B, T, 3 parts] by heads.
Scored parts_of(const Call& call, const Tensor& projected, int64_t heads, std::vector<int64_t> widths) {
  const int64_t width = projected.dim(2);
  if (widths.empty()) {
    call.require(width % 3 == 0, "the weights are not those of queries, keys and values");
    widths.assign(3, width / 3);
  }
  for (const int64_t one : widths)
    call.require(one > 0 && one <= width && one % heads == 0, "qkv_hidden_sizes is impossible");
  call.require(widths.size() == 3 && widths[0] == widths[1] && widths[0] + widths[1] + widths[2] == width,
               "qkv_hidden_sizes does not fit the weights");
  const int64_t k = widths[0], v = widths[0] + widths[1];
  return {split_heads(call, slice(projected, 2, 0, k), heads),
          split_heads(call, slice(projected, 2, k, v), heads),
          split_heads(call, slice(projected, 2, v, width), heads),
          {}};
}

Results attend_projected(Call& call, const Tensor& projected, size_t mask, size_t past, size_t bias, size_t like) {
  only_value(call, "do_rotary", 0);
  only_value(call, "past_present_share_buffer", 0);
  if (call.attribute("rotary_embedding_dim") && call.integer("rotary_embedding_dim", 0) != 0)
    call.not_supported("rotary_embedding_dim");
  Scored s = parts_of(call, projected, number_of_heads(call, "num_heads"), call.integers("qkv_hidden_sizes"));
  const Value present = join_past(call, past, like, s);
  if (call.wants(1) && present.empty()) call.not_supported("a present of values that are wider than keys");
  add_mask(call, mask, s);
  if (call.integer("unidirectional", 0) != 0) add_causal(s);
  add_given_bias(call, bias, s);
  const Tensor y = joined_heads(attended(call, s));
  return {{call.type(like), cast(y, call.tensor(like).dtype())}, present};
}

Results contrib_attention(Call& call) {
  only_attributes(call, {"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "qkv_hidden_sizes",
                         "rotary_embedding_dim", "scale", "unidirectional"});
  if (call.has(6)) call.not_supported("past_sequence_length");
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  call.require(x.rank() == 3 && w.rank() == 2 && x.dim(2) == w.dim(0), "the weights do not fit the input");
  Tensor projected = matmul(wide(x), wide(w), call.computing());
  if (call.has(2)) {
    call.require(call.shape(2) == Shape{w.dim(1)}, "the bias does not fit the weights");
    projected = add(projected, wide(call.tensor(2)));
  }
  return attend_projected(call, projected, 3, 4, 5, 0);
}

// Attention whose projection is of bytes.
Results q_attention(Call& call) {
  only_attributes(
      call, {"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer", "scale", "unidirectional"});
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  call.require(x.rank() == 3 && w.rank() == 2 && x.dim(2) == w.dim(0), "the weights do not fit the input");
  call.require(call.shape(2) == Shape{w.dim(1)}, "the bias does not fit the weights");
  const auto one_or_each = [&](size_t input) {
    const Tensor& values = call.tensor(input);
    call.require(values.size() == 1 || values.shape() == Shape{w.dim(1)}, "the scales do not fit the weights");
    return values.size() == 1 ? reshape(values, {}) : values;
  };
  const auto centred = [&](size_t input, size_t zero_point) {
    const Tensor codes = cast(call.tensor(input), DType::kInt32);
    return call.has(zero_point) ? sub(codes, cast(one_or_each(zero_point), DType::kInt32)) : codes;
  };
  call.require(call.tensor(3).size() == 1 && (!call.has(6) || call.tensor(6).size() == 1),
               "expected one scale and zero point of the input");
  const Tensor product = cast(matmul(centred(0, 6), centred(1, 7), call.computing()), DType::kFloat32);
  const Tensor scale = mul(cast(reshape(call.tensor(3), {}), DType::kFloat32), cast(one_or_each(4), DType::kFloat32));
  const Tensor projected = add(mul(product, scale), cast(call.tensor(2), DType::kFloat32));
  return attend_projected(call, projected, 5, 8, 9, 2);
}

// ---- MultiHeadAttention

// Queries, keys and values in each of the forms that the operator takes.
Scored multi_head_inputs(const Call& call, int64_t heads) {
  const Tensor& q = call.tensor(0);
  Scored s;
  if (q.rank() == 5) {  // [B, T, H, 3, d]
    call.require(!call.has(1) && !call.has(2) && q.dim(2) == heads && q.dim(3) == 3, "packed queries are impossible");
    const auto part = [&](int64_t i) { return squeeze(slice(q, 3, i, i + 1), 3); };
    s = {part(0), part(1), part(2), {}};
  } else {
    s.q = split_heads(call, q, heads);
    const Tensor& k = call.tensor(1);
    if (k.rank() == 5) {  // [B, S, H, 2, d]
      call.require(!call.has(2) && k.dim(2) == heads && k.dim(3) == 2, "packed keys are impossible");
      s.k = squeeze(slice(k, 3, 0, 1), 3), s.v = squeeze(slice(k, 3, 1, 2), 3);
    } else if (k.rank() == 4) {  // [B, H, S, d], finished
      call.require(call.tensor(2).rank() == 4, "expected values of rank 4 beside keys of rank 4");
      s.k = heads_first(k), s.v = heads_first(call.tensor(2));
    } else {
      s.k = split_heads(call, k, heads), s.v = split_heads(call, call.tensor(2), heads);
    }
  }
  if (call.has(3)) {
    const bool finished = call.has(1) && call.tensor(1).rank() == 4;
    const int64_t d = heads * s.q.dim(3), e = heads * s.v.dim(3);
    call.require(call.shape(3) == Shape{2 * d + e}, "the bias does not fit its inputs");
    const auto with = [&](const Tensor& x, int64_t begin) {
      return add(x, reshape(slice(call.tensor(3), 0, begin, begin + x.dim(2) * x.dim(3)), {x.dim(2), x.dim(3)}));
    };
    s.q = with(s.q, 0);
    if (!finished) s.k = with(s.k, d), s.v = with(s.v, 2 * d);
  }
  call.require(s.q.dim(0) == s.k.dim(0) && s.k.dim(0) == s.v.dim(0) && s.k.dim(1) == s.v.dim(1) &&
                   s.q.dim(2) == s.k.dim(2) && s.k.dim(2) == s.v.dim(2) && s.q.dim(3) == s.k.dim(3),
               "queries, keys and values do not fit together");
  return s;
}

Results multi_head_attention(Call& call) {
  only_attributes(call, {"mask_filter_value", "num_heads", "scale", "unidirectional"});
  if (call.has(8) || call.has(9)) call.not_supported("past_sequence_length or cache_indirection");
  if (call.wants(3)) call.not_supported("its output qk");
  Scored s = multi_head_inputs(call, number_of_heads(call, "num_heads"));
  call.require(call.has(6) == call.has(7), "expected past_key and past_value, or neither");
  if (call.has(6)) {
    const auto joined = [&](size_t past, const Tensor& now) {
      const Tensor& before = call.tensor(past);
      call.require(before.rank() == 4 && before.dim(0) == now.dim(0) && before.dim(1) == now.dim(2) &&
                       before.dim(3) == now.dim(3),
                   "the past does not fit [batch, heads, places, width]");
      return concatenate({heads_first(before), now}, 1);
    };
    s.k = joined(6, s.k), s.v = joined(7, s.v);
  }
  add_mask(call, 4, s);
  if (call.integer("unidirectional", 0) != 0) add_causal(s);
  add_given_bias(call, 5, s);
  return {call.like(0, joined_heads(attended(call, s))), call.like(0, heads_first(s.k)),
          call.like(0, heads_first(s.v))};
}

// ---- RotaryEmbedding

// x [B, T, H, d], of which the first 2 tables' width places are turned by the angles at `places` [B or 1, T].
Tensor rotated(const Call& call, const Tensor& x, const Tensor& places, size_t cosines, size_t sines,
               bool interleaved) {
  const int64_t d = x.dim(3);
  const Shape& table = call.shape(cosines);
  call.require(table.size() == 2 && call.shape(sines) == table && 2 * table[1] <= d,
               "the tables of cosines and sines do not fit");
  const int64_t half = table[1], B = x.dim(0), T = x.dim(1), H = x.dim(2);
  const DType dtype = wide_type(x.dtype());
  const auto at = [&](size_t input) { return unsqueeze(gather(cast(call.tensor(input), dtype), places, 0), 2); };
  const Tensor cosine = at(cosines), sine = at(sines), turned = cast(slice(x, 3, 0, 2 * half), dtype);
  Tensor a, b;
  if (interleaved) {
    const Tensor pairs = reshape(turned, {B, T, H, half, 2});
    a = squeeze(slice(pairs, 4, 0, 1), 4), b = squeeze(slice(pairs, 4, 1, 2), 4);
  } else {
    a = slice(turned, 3, 0, half), b = slice(turned, 3, half, 2 * half);
  }
  const Tensor real = sub(mul(cosine, a), mul(sine, b)), imaginary = add(mul(sine, a), mul(cosine, b));
  Tensor y = interleaved ? reshape(concatenate({unsqueeze(real, 4), unsqueeze(imaginary, 4)}, 4), {B, T, H, 2 * half})
                         : concatenate({real, imaginary}, 3);
  y = cast(y, x.dtype());
  return 2 * half < d ? concatenate({y, slice(x, 3, 2 * half, d)}, 3) : y;
}

Results contrib_rotary_embedding(Call& call) {
  only_attributes(call, {"interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale"});
  only_value(call, "is_packed_batching", 0);
  if (call.number("scale", 1) != 1) call.not_supported("a scale");
  const Tensor& given = call.tensor(0);
  call.require(given.rank() == 3 || given.rank() == 4, "expected a tensor of rank 3 or 4");
  call.require(call.tensor(2).rank() == 2, "expected tables of rank 2");
  const int64_t turned = call.integer("rotary_embedding_dim", 0), table = 2 * call.tensor(2).dim(1);
  call.require(turned == 0 || turned == table, "rotary_embedding_dim does not fit the tables");
  Tensor x;
  if (given.rank() == 4) x = heads_first(given);
  else {
    const int64_t heads = turned > 0 ? call.integer("num_heads") : table > 0 ? given.dim(2) / table : 0;
    x = split_heads(call, given, heads);
  }
  const int64_t B = x.dim(0), T = x.dim(1);
  Tensor places = cast(call.tensor(1), DType::kInt64);
  if (places.size() == 1 && T != 1) places = add(reshape(places, {1, 1}), iota({1, T}, 1));
  else if (places.size() == 1) places = reshape(places, {1, 1});
  else call.require(places.shape() == Shape{B, T}, "position_ids must be one number or [batch, tokens]");
  const Tensor y = rotated(call, x, places, 2, 3, call.integer("interleaved", 0) != 0);
  return {call.like(0, given.rank() == 4 ? heads_first(y) : reshape(y, given.shape()))};
}

// ---- GroupQueryAttention

struct Grouped {
  Tensor q, k, v;      // [B, T, heads, d]
  Tensor lengths;      // i64 [B, 1]: keys of each row, those of now with them
  Tensor before;       // i64 [B, 1]: keys of each row before those of now
  int64_t total = 0;   // keys of the longest row
  int64_t places = 0;  // in present
};

Grouped grouped_inputs(const Call& call, int64_t heads, int64_t groups) {
  Grouped g;
  const Tensor& q = call.tensor(0);
  call.require(q.rank() == 3, "expected queries of rank 3");
  call.require(call.has(1) == call.has(2), "expected keys and values, or neither");
  if (call.has(1)) {
    g.q = split_heads(call, q, heads);
    g.k = split_heads(call, call.tensor(1), groups), g.v = split_heads(call, call.tensor(2), groups);
  } else {
    const Tensor all = split_heads(call, q, heads + 2 * groups);
    g.q = slice(all, 2, 0, heads), g.k = slice(all, 2, heads, heads + groups);
    g.v = slice(all, 2, heads + groups, heads + 2 * groups);
  }
  const int64_t B = g.q.dim(0), T = g.q.dim(1);
  call.require(g.k.dim(0) == B && g.k.dim(1) == T && g.k.dim(3) == g.q.dim(3) && g.v.shape() == g.k.shape(),
               "queries, keys and values do not fit together");
  call.require(call.tensor(5).size() == B, "seqlens_k must have a number for each row");
  g.total = call.integer_of(call.tensor(6));
  call.require(g.total >= T && g.total < int64_t{1} << 31, "total_sequence_length is impossible");
  call.require(call.has(3) == call.has(4), "expected past_key and past_value, or neither");
  int64_t past = 0;
  if (call.has(3)) {
    const Shape& shape = call.shape(3);
    call.require(
        shape.size() == 4 && shape[0] == B && shape[1] == groups && shape[3] == g.k.dim(3) && call.shape(4) == shape,
        "the past does not fit [batch, heads, places, width]");
    past = shape[2];
  }
  call.require(past + T >= g.total, "total_sequence_length is more than the past and what is new");
  g.places = std::max(past, g.total);
  g.lengths = reshape(cast(call.tensor(5), DType::kInt64), {B, 1}) + 1;
  g.before = T == g.total ? zeros({B, 1}, DType::kInt64) : sub(g.lengths, integer(T));
  return g;
}

// The past of each row as far as it goes, then what is new, then zeros: [B, places, G, d].
Tensor present_of(const Call& call, const Grouped& g, size_t past_input, const Tensor& now) {
  const int64_t B = now.dim(0), T = now.dim(1), G = now.dim(2), d = now.dim(3);
  const Tensor place = iota({B, g.places}, 1), behind = sub(place, g.before);
  const int64_t past = call.has(past_input) ? call.tensor(past_input).dim(2) : 0;
  const Tensor all = past > 0 ? concatenate({cast(heads_first(call.tensor(past_input)), now.dtype()), now}, 1) : now;
  const Tensor inside = maximum(minimum(behind, integer(T - 1)), integer(0)) + static_cast<double>(past);
  Tensor from = inside;
  if (past > 0) from = select(less(behind, integer(0)), minimum(place, integer(past - 1)), inside);
  const Tensor index = broadcast_to(reshape(from, {B, g.places, 1, 1}), {B, g.places, G, d});
  const Tensor filled = reshape(less(behind, integer(T)), {B, g.places, 1, 1});
  return select(filled, take_along_axis(all, index, 1), constant(0, now.dtype()));
}

// A softmax that shares its sum with one more score a head: [H], or 0 where there is none.
Tensor attended_with_sink(const Call& call, const Scored& s, const Tensor& sink, double scale, double cap) {
  const int64_t B = s.q.dim(0), T = s.q.dim(1), H = s.q.dim(2), G = s.k.dim(2), S = s.k.dim(1), d = s.q.dim(3);
  const auto of_each = [&](const Tensor& x) {  // [B, S, G, d] -> [B, H, S, d]
    const Tensor spread = broadcast_to(unsqueeze(heads_first(x), 2), {B, G, H / G, S, d});
    return cast(reshape(spread, {B, H, S, d}), s.dtype());
  };
  const Tensor q = cast(heads_first(s.q), s.dtype());
  Tensor scores = matmul(q, transpose(of_each(s.k), 2, 3), call.computing()) * scale;
  if (cap != 0) scores = tanh(scores / cap) * cap;
  if (s.bias.defined()) scores = add(scores, s.bias);
  const Tensor more = broadcast_to(reshape(cast(sink, s.dtype()), {1, sink.size(), 1, 1}), {B, H, T, 1});
  const Tensor weights = slice(softmax(concatenate({scores, more}, 3), call.computing()), 3, 0, S);
  return heads_first(matmul(weights, of_each(s.v), call.computing()));
}

void refuse_forms_of_groups(const Call& call) {
  only_attributes(call,
                  {"do_rotary", "k_quant_type", "kv_cache_bit_width", "kv_num_heads", "local_window_size", "num_heads",
                   "qk_output", "rotary_interleaved", "scale", "smooth_softmax", "softcap", "v_quant_type"});
  only_value(call, "qk_output", 0);
  only_value(call, "kv_cache_bit_width", 0);
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (call.text(name, "NONE") != "NONE") call.not_supported(fmt::format("{} = {}", name, call.text(name, "")));
  if (call.has(12) || call.has(13)) call.not_supported("quantised keys and values");
  if (call.inputs() > 14) call.not_supported("more than 14 inputs");
  if (call.wants(3)) call.not_supported("its output output_qk");
}

Results group_query_attention(Call& call) {
  refuse_forms_of_groups(call);
  const int64_t heads = number_of_heads(call, "num_heads"), groups = number_of_heads(call, "kv_num_heads");
  call.require(heads % groups == 0, "num_heads must be a multiple of kv_num_heads");
  Grouped g = grouped_inputs(call, heads, groups);
  const int64_t B = g.q.dim(0), T = g.q.dim(1);
  const Tensor positions = add(g.before, iota({1, T}, 1));  // [B, T]: which key is a query's own
  if (call.integer("do_rotary", 0) != 0) {
    Tensor places = positions;
    if (call.has(9)) {
      call.require(call.shape(9) == Shape{B, T}, "position_ids must be [batch, tokens]");
      places = cast(call.tensor(9), DType::kInt64);
    }
    const bool interleaved = call.integer("rotary_interleaved", 0) != 0;
    g.q = rotated(call, g.q, places, 7, 8, interleaved);
    g.k = rotated(call, g.k, places, 7, 8, interleaved);
  }
  const Tensor keys = present_of(call, g, 3, g.k), values = present_of(call, g, 4, g.v);
  Scored s{g.q, slice(keys, 1, 0, g.total), slice(values, 1, 0, g.total), {}};
  const Tensor distance = sub(reshape(positions, {B, 1, T, 1}), iota({1, 1, 1, g.total}, 3));
  Tensor seen = greater_equal(distance, integer(0));
  if (const int64_t window = call.integer("local_window_size", -1); window > 0)
    seen = logical_and(seen, less(distance, integer(window)));
  s.add_bias(select(seen, constant(0, s.dtype()), constant(kMaskedScore, s.dtype())));
  add_given_bias(call, 10, s);
  const double scale = scale_of(call, g.q.dim(3)), cap = call.number("softcap", 0);
  Tensor y;
  if (call.has(11) || call.integer("smooth_softmax", 0) > 0) {
    if (call.has(11)) call.require(call.shape(11) == Shape{heads}, "head_sink must have a number for each head");
    y = attended_with_sink(call, s, call.has(11) ? call.tensor(11) : zeros({1}, s.dtype()), scale, cap);
  } else {
    y = attention(s.q, s.k, s.v, s.bias, {.scale = scale, .causal = false, .soft_cap = cap}, call.computing());
  }
  y = cast(y, call.tensor(0).dtype());
  return {call.like(0, joined_heads(y)), call.like(0, heads_first(keys)), call.like(0, heads_first(values))};
}

}  // namespace

const RegisterOperators kContribAttention = {
    contrib("Attention", contrib_attention), contrib("QAttention", q_attention),
    contrib("MultiHeadAttention", multi_head_attention), contrib("RotaryEmbedding", contrib_rotary_embedding),
    contrib("GroupQueryAttention", group_query_attention)};

}  // namespace transom::onnx
