// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/paged_cache.h"

#include "base/error.h"
#include "graph/ops/attention/paged_attention.h"

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
  return tokens * heads * (key_width + value_width) * static_cast<int64_t>(size_of(dtype));
}

PagedCache::PagedCache(std::vector<KeysAndValues> pools, int64_t block_size, PagedTokens tokens)
    : pools_(std::move(pools)), block_size_(block_size), tokens_(std::move(tokens)) {}

Tensor PagedCache::attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                          const AttentionOptions& options, const Computing& computing) {
  if (bias.defined() || !options.causal)
    fail(ErrorKind::kUnsupported, "attention with a bias or without a causal mask cannot be paged");
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
                                       tokens_.lengths, options, computing);
  return reshape(mixed, {q.dim(0), q.dim(1), q.dim(2), v.dim(3)});
}

Tensor PagedCache::state(size_t) const { refuse_state(); }
void PagedCache::set_state(size_t, Tensor) { refuse_state(); }

}  // namespace transom
