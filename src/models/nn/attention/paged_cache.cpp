// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/paged_cache.h"

#include "base/error.h"
#include "graph/ops/attention/paged_attention.h"
#include "graph/ops/computing.h"

namespace transom {
namespace {

// The pool with the heads [1, N, G, d] of the tokens in their slots: in place, as nothing stands between the scatter
// and the argument that is donated.
Tensor with_tokens(const Tensor& pool, const Tensor& slots, const Tensor& heads) {
  return scatter(pool, slots, reshape(cast(heads, pool.dtype()), {slots.dim(0), pool.dim(1), pool.dim(2)}));
}

[[noreturn]] void refuse_state() { fail(ErrorKind::kUnsupported, "a state beside keys and values cannot be paged"); }

}  // namespace

int64_t KeyValueShape::bytes(int64_t tokens) const {
  if (is_state()) return elements(state) * static_cast<int64_t>(size_of(dtype));
  return tokens * heads * (key_width + value_width) * static_cast<int64_t>(size_of(dtype));
}

std::vector<Type> pool_types(const std::vector<KeyValueShape>& shapes, int64_t blocks, int64_t tokens) {
  std::vector<Type> types;
  for (const KeyValueShape& shape : shapes) {
    if (shape.is_state()) {
      types.push_back({shape.dtype, shape.state});
      types.back().shape.insert(types.back().shape.begin(), blocks);
      continue;
    }
    for (const int64_t width : {shape.key_width, shape.value_width})
      types.push_back({shape.dtype, {blocks * tokens, shape.heads, width}});
  }
  return types;
}

PagedCache::PagedCache(std::vector<KeysAndValues> pools, int64_t block_size, PagedTokens tokens,
                       std::vector<Tensor> states)
    : pools_(std::move(pools)), states_(std::move(states)), block_size_(block_size), tokens_(std::move(tokens)) {}

Tensor PagedCache::attend(int64_t layer, const Tensor& q, const Tensor& given_keys, const Tensor& given_values,
                          const Tensor& bias, const AttentionOptions& options, const Computing& computing,
                          const Tensor& sinks) {
  if (bias.defined() || !options.causal)
    fail(ErrorKind::kUnsupported, "attention with a bias or without a causal mask cannot be paged");
  // As attention itself would read them, so that a pass without a cache has the same numbers.
  const Tensor k = autocast_low(given_keys, computing), v = autocast_low(given_values, computing);
  const auto place = static_cast<size_t>(layer);
  if (!tokens_.slots.defined()) {
    if (shapes_.size() <= place) shapes_.resize(place + 1);
    shapes_[place] = {k.dim(2), k.dim(3), v.dim(3), k.dtype()};
    return attention(q, k, v, {}, options, computing);
  }
  KeysAndValues& pool = pools_.at(place);
  pool = {with_tokens(pool.keys, tokens_.slots, k), with_tokens(pool.values, tokens_.slots, v)};
  // Each token is a row of one query: what it sees does not show how the others of its text were cut into passes.
  const Tensor queries = reshape(q, {q.dim(0) * q.dim(1), 1, q.dim(2), q.dim(3)});
  const Tensor mixed = paged_attention(queries, pool.keys, pool.values, block_size_, tokens_.block_tables,
                                       tokens_.lengths, options, computing, sinks);
  return reshape(mixed, {q.dim(0), q.dim(1), q.dim(2), v.dim(3)});
}

Tensor PagedCache::state(size_t) const { refuse_state(); }
void PagedCache::set_state(size_t, Tensor) { refuse_state(); }

// The state behind a token lies with the block that holds the token; the first of a block goes on from the state of the
// block before it.
StatePlaces PagedCache::state_places(size_t number, const Type& one) {
  if (!tokens_.slots.defined()) {
    if (state_shapes_.size() <= number) state_shapes_.resize(number + 1);
    state_shapes_[number] = {.dtype = one.dtype, .state = one.shape};
    return {};
  }
  if (!from_.defined()) {
    const int64_t N = tokens_.slots.dim(0);
    const Tensor size = full({N}, static_cast<double>(block_size_), DType::kInt64), none = zeros({N}, DType::kInt64);
    const Tensor nowhere = full({N}, -1, DType::kInt64), place = cast(tokens_.lengths, DType::kInt64) - 1.0;
    to_ = select(greater_equal(tokens_.slots, none), div(tokens_.slots, size), nowhere);
    const Tensor block = div(place, size);
    const Tensor before = cast(
        squeeze(take_along_axis(tokens_.block_tables, unsqueeze(maximum(block - 1.0, none), 1), 1), 1), DType::kInt64);
    const Tensor begins = equal(remainder(place, size), none), first = equal(place, none);
    from_ = select(begins, select(first, nowhere, before), to_);
  }
  return {states_.at(number), from_, to_};
}

void PagedCache::set_state_pool(size_t number, Tensor pool) { states_.at(number) = std::move(pool); }

}  // namespace transom
