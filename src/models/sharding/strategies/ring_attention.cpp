// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/ring_attention.h"

#include <algorithm>
#include <utility>

#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kRows = 1, kWidth = 3;  // dimensions of q, k, v

DType sum_type(DType dtype) { return size_of(dtype) == 2 ? DType::kFloat32 : dtype; }

// Side by side along the last axis, in one type that holds all of them.
Tensor packed(std::vector<Tensor> parts) {
  const DType wide = sum_type(parts[0].dtype());
  const bool alike =
      std::all_of(parts.begin(), parts.end(), [&](const Tensor& part) { return part.dtype() == parts[0].dtype(); });
  for (Tensor& part : parts)
    if (!alike) part = cast(part, wide);
  return concatenate(parts, kWidth);
}
Tensor unpacked(const Tensor& x, int64_t begin, int64_t end, DType dtype) {
  return cast(slice(x, kWidth, begin, end), dtype);
}

// [B, H, T] as [B, T, H, 1], and back
Tensor as_column(const Tensor& x) { return unsqueeze(permute(x, {0, 2, 1}), 3); }
Tensor as_statistics(const Tensor& x) { return permute(squeeze(x, 3), {0, 2, 1}); }

Tensor packed_result(const PartialAttention& x) { return packed({x.out, as_column(x.largest), as_column(x.sum)}); }
PartialAttention unpacked_result(const Tensor& x, DType dtype) {
  const int64_t e = x.dim(kWidth) - 2;
  const DType wide = sum_type(dtype);
  return {unpacked(x, 0, e, dtype), as_statistics(unpacked(x, e, e + 1, wide)),
          as_statistics(unpacked(x, e + 1, e + 2, wide))};
}

PartialAttention rows_from(const PartialAttention& x, int64_t begin, int64_t end) {
  return {slice(x.out, kRows, begin, end), slice(x.largest, 2, begin, end), slice(x.sum, 2, begin, end)};
}
PartialAttention behind(const PartialAttention& first, const PartialAttention& second) {
  return {concatenate({first.out, second.out}, kRows), concatenate({first.largest, second.largest}, 2),
          concatenate({first.sum, second.sum}, 2)};
}

// What a message has where there is nothing to send.
Tensor nothing(DType dtype) { return zeros({1}, dtype); }

// Sums of what may be missing.
void add_to(Tensor& sum, const Tensor& x) { sum = sum.defined() ? sum + x : x; }
// x, of the rows from `row` on of `rows`.
Tensor among_rows(const Tensor& x, int64_t row, int64_t rows) {
  const int64_t behind = rows - row - x.dim(kRows);
  return row == 0 && behind == 0 ? x : pad(x, {0, row, 0, 0}, {0, behind, 0, 0});
}

}  // namespace

RingAttention::RingAttention(Resharder& resharder, Ring ring, RingOperands operands)
    : resharder_(resharder), ring_(std::move(ring)), in_(std::move(operands)) {
  // A bias of its own for each query is not at hand where others compute for it; of a window most processes see the
  // same.
  helps_ = in_.options.causal && in_.options.sliding_window == 0 && (!in_.bias.defined() || in_.bias.dim(2) == 1);
}

bool RingAttention::sees(int64_t queries, int64_t keys) const {
  if (!in_.options.causal) return true;
  if (keys > queries) return false;
  const int64_t window = in_.options.sliding_window;
  const auto q = static_cast<size_t>(queries), k = static_cast<size_t>(keys);
  return window == 0 || ring_.queries[q].begin - (ring_.keys[k].end - 1) < window;
}

// Half way round two processes meet each other, and share the queries of the later one.
int64_t RingAttention::helped_rows(int64_t process, int64_t step) const {
  const int64_t rows = ring_.queries[static_cast<size_t>(process)].size();
  return 2 * step == processes() ? rows / 2 : rows;
}

int64_t RingAttention::first_own_row(int64_t step) const {
  return helps_ && 2 * step == processes() ? helped_rows(ring_.process, step) : 0;
}

RingAttention::Given RingAttention::given(int64_t from, int64_t step) const {
  const int64_t to = (from + step) % processes();
  if (helps_ && from + step >= processes()) return helped_rows(from, step) > 0 ? Given::kQueries : Given::kNothing;
  return sees(to, from) ? Given::kKeys : Given::kNothing;
}

std::vector<int64_t> RingAttention::steps() const {
  std::vector<int64_t> all;
  for (int64_t step = 1; step <= (helps_ ? processes() / 2 : processes() - 1); ++step) {
    bool idle = true;
    for (int64_t process = 0; process < processes(); ++process) idle = idle && given(process, step) == Given::kNothing;
    if (!idle) all.push_back(step);
  }
  return all;
}

Shape RingAttention::rows_of(const Tensor& like, int64_t rows, int64_t width) const {
  return {like.dim(0), rows, like.dim(2), width};
}

void RingAttention::note_nothing(const Tensor& received) {
  add_to(nothing_, cast(received, sum_type(received.dtype())));
}

// What comes must be used, or this process would take no part in what the others wait for.
Tensor RingAttention::with_nothing(const Tensor& x) const {
  return nothing_.defined() ? x + broadcast_to(reshape(cast(nothing_, x.dtype()), {1, 1, 1, 1}), x.shape()) : x;
}

Tensor RingAttention::send(const Tensor& x, int64_t step, const Shape& shape, const Tensor& after) {
  return resharder_.shifted(x, ring_.axis, step, shape, after);
}

Tensor RingAttention::bias_of(int64_t keys) const {
  if (!in_.bias.defined() || in_.bias.dim(3) == 1) return in_.bias;
  const Range& range = ring_.keys[static_cast<size_t>(keys)];
  return slice(in_.bias, 3, range.begin, range.end);
}

AttentionOptions RingAttention::options_of(int64_t queries, int64_t keys) const {
  AttentionOptions options = in_.options;
  options.causal = options.causal && (queries == keys || options.sliding_window > 0);
  if (!options.causal) options.sliding_window = 0;
  return options;
}

PartialDropout RingAttention::dropout_of(int64_t queries, int64_t row, int64_t keys) const {
  PartialDropout dropout = in_.dropout;
  if (!dropout.key.defined()) return dropout;
  dropout.at[2] = ring_.queries[static_cast<size_t>(queries)].begin + row;
  dropout.at[3] = ring_.keys[static_cast<size_t>(keys)].begin;
  return dropout;
}

PartialAttention RingAttention::pair(const Tensor& q, int64_t queries, int64_t row, const Tensor& k, const Tensor& v,
                                     int64_t keys) const {
  const int64_t offset =
      ring_.queries[static_cast<size_t>(queries)].begin + row - ring_.keys[static_cast<size_t>(keys)].begin;
  return partial_attention(q, k, v, bias_of(keys), options_of(queries, keys), offset, dropout_of(queries, row, keys));
}

PartialAttention RingAttention::forward() {
  const int64_t p = ring_.process, d = in_.q.dim(kWidth), e = in_.v.dim(kWidth), T = in_.q.dim(kRows);
  const DType dtype = in_.q.dtype();
  const auto start = [&](int64_t step, const Tensor& after) {
    const auto of = [&](Given what) {
      if (what == Given::kKeys) return packed({in_.k, in_.v});
      return what == Given::kQueries ? slice(in_.q, kRows, 0, helped_rows(p, step)) : nothing(dtype);
    };
    const int64_t from = before(step);
    Shape shape = {1};
    if (const Given what = given(from, step); what == Given::kKeys)
      shape = rows_of(in_.k, ring_.keys[static_cast<size_t>(from)].size(), d + e);
    else if (what == Given::kQueries) shape = rows_of(in_.q, helped_rows(from, step), d);
    return send(of(given(p, step)), step, shape, after);
  };
  const std::vector<int64_t> all_steps = steps();
  Tensor next = all_steps.empty() ? Tensor() : start(all_steps[0], {});
  PartialAttention sum = pair(in_.q, p, 0, in_.k, in_.v, p);
  for (size_t i = 0; i < all_steps.size(); ++i) {
    const int64_t step = all_steps[i];
    const Tensor got = std::exchange(next, {});
    if (i + 1 < all_steps.size()) next = start(all_steps[i + 1], sum.out);
    const int64_t from = before(step), row = first_own_row(step);
    const Given what = given(from, step);
    std::optional<PartialAttention> own, helped;
    if (what == Given::kKeys) {
      own = pair(row > 0 ? slice(in_.q, kRows, row, T) : in_.q, p, row, unpacked(got, 0, d, dtype),
                 unpacked(got, d, d + e, dtype), from);
    } else if (what == Given::kQueries) {
      helped = pair(got, from, 0, in_.k, in_.v, p);
    } else {
      note_nothing(got);
    }
    if (helps_) {  // back to those whose queries these are
      const bool was_helped = given(p, step) == Given::kQueries;
      const Tensor result = send(helped ? packed_result(*helped) : nothing(sum_type(dtype)), processes() - step,
                                 was_helped ? rows_of(in_.q, helped_rows(p, step), e + 2) : Shape{1}, {});
      if (!was_helped) note_nothing(result);
      else if (own && row > 0) own = behind(unpacked_result(result, dtype), *own);
      else sum = joined(sum, unpacked_result(result, dtype));
    }
    if (own) sum = joined(sum, *own);
  }
  sum.out = with_nothing(sum.out);
  nothing_ = {};
  return sum;
}

PartialAttentionGradients RingAttention::pair_gradients(const Tensor& q, int64_t queries, int64_t row, const Tensor& k,
                                                        const Tensor& v, int64_t keys,
                                                        const PartialAttention& statistics, const Tensor& shift,
                                                        const Tensor& dy) const {
  const int64_t offset =
      ring_.queries[static_cast<size_t>(queries)].begin + row - ring_.keys[static_cast<size_t>(keys)].begin;
  return partial_attention_gradients(q, k, v, bias_of(keys), statistics.largest, statistics.sum, shift, dy,
                                     options_of(queries, keys), offset, dropout_of(queries, row, keys));
}

PartialAttentionGradients RingAttention::backward(const PartialAttention& result, const Tensor& dy) {
  const int64_t p = ring_.process, d = in_.q.dim(kWidth), e = in_.v.dim(kWidth), T = in_.q.dim(kRows);
  const DType dtype = in_.q.dtype(), wide = sum_type(dtype);
  const Tensor shift = permute(reduce_sum(cast(dy, wide) * cast(result.out, wide), {kWidth}), {0, 2, 1});
  const auto start = [&](int64_t step, const Tensor& after) {
    const auto of = [&](Given what) {
      if (what == Given::kKeys) return packed({in_.k, in_.v});
      if (what == Given::kNothing) return nothing(dtype);
      return slice(packed({in_.q, dy}), kRows, 0, helped_rows(p, step));
    };
    const int64_t from = before(step);
    Shape shape = {1};
    if (const Given what = given(from, step); what == Given::kKeys)
      shape = rows_of(in_.k, ring_.keys[static_cast<size_t>(from)].size(), d + e);
    else if (what == Given::kQueries) shape = rows_of(in_.q, helped_rows(from, step), d + e);
    return send(of(given(p, step)), step, shape, after);
  };
  const Tensor columns = packed({as_column(result.largest), as_column(result.sum), as_column(shift)});
  const std::vector<int64_t> all_steps = steps();
  Tensor next = all_steps.empty() ? Tensor() : start(all_steps[0], {});
  PartialAttentionGradients sum = pair_gradients(in_.q, p, 0, in_.k, in_.v, p, result, shift, dy);
  sum = {cast(sum.q, wide), cast(sum.k, wide), cast(sum.v, wide)};
  for (size_t i = 0; i < all_steps.size(); ++i) {
    const int64_t step = all_steps[i];
    const Tensor got = std::exchange(next, {});
    if (i + 1 < all_steps.size()) next = start(all_steps[i + 1], sum.q);
    const int64_t from = before(step), row = first_own_row(step);
    const Given what = given(from, step), gave = given(p, step);
    Tensor back = nothing(wide), of_queries;
    if (helps_) {
      const bool gives = gave == Given::kQueries, gets = what == Given::kQueries;
      of_queries = send(gives ? slice(columns, kRows, 0, helped_rows(p, step)) : nothing(wide), step,
                        gets ? rows_of(in_.q, helped_rows(from, step), 3) : Shape{1}, {});
      if (!gets) note_nothing(of_queries);
    }
    if (what == Given::kKeys) {
      const PartialAttention statistics = row > 0 ? rows_from(result, row, T) : result;
      const auto own = [&](const Tensor& x) { return row > 0 ? slice(x, kRows, row, T) : x; };
      const PartialAttentionGradients made =
          pair_gradients(own(in_.q), p, row, unpacked(got, 0, d, dtype), unpacked(got, d, d + e, dtype), from,
                         statistics, row > 0 ? slice(shift, 2, row, T) : shift, own(dy));
      add_to(sum.q, among_rows(cast(made.q, wide), row, T));
      back = packed({cast(made.k, wide), cast(made.v, wide)});
    } else if (what == Given::kQueries) {
      const auto column = [&](int64_t i) { return as_statistics(slice(of_queries, kWidth, i, i + 1)); };
      const PartialAttentionGradients made =
          pair_gradients(unpacked(got, 0, d, dtype), from, 0, in_.k, in_.v, p, {{}, column(0), column(1)}, column(2),
                         unpacked(got, d, d + e, dtype));
      add_to(sum.k, cast(made.k, wide));
      add_to(sum.v, cast(made.v, wide));
      back = cast(made.q, wide);
    } else {
      note_nothing(got);
    }
    // What comes back is of what was given.
    Shape shape = {1};
    if (gave == Given::kKeys) shape = rows_of(in_.k, in_.k.dim(kRows), d + e);
    else if (gave == Given::kQueries) shape = rows_of(in_.q, helped_rows(p, step), d);
    const Tensor returned = send(back, processes() - step, shape, {});
    if (gave == Given::kKeys) {
      add_to(sum.k, slice(returned, kWidth, 0, d));
      add_to(sum.v, slice(returned, kWidth, d, d + e));
    } else if (gave == Given::kQueries) {
      add_to(sum.q, among_rows(returned, 0, T));
    } else {
      note_nothing(returned);
    }
  }
  sum = {cast(with_nothing(sum.q), dtype), cast(sum.k, dtype), cast(sum.v, dtype)};
  nothing_ = {};
  return sum;
}

}  // namespace transom
