// SPDX-License-Identifier: Apache-2.0
// Keys and values in blocks of a pool that many texts share (Kwon et al., "Efficient memory management for large
// language model serving with PagedAttention", 2023). A pass computes tokens of any texts, flattened to one row: which
// text a token belongs to, and which place it has there, are inputs of the graph.
// Letters: N tokens of a pass, M blocks of the longest text, G heads of keys.
#pragma once

#include <vector>

#include "models/nn/attention/cache.h"

namespace transom {

// What an attention layer keeps of a token; or what a layer keeps of a text, a state, of which each block has the one
// behind its last token: so blocks are shared, copied and given up with their states.
struct KeyValueShape {
  int64_t heads = 0, key_width = 0, value_width = 0;  // G, d, e
  DType dtype = DType::kFloat32;
  Shape state = {};  // not empty: of a text
  bool is_state() const { return !state.empty(); }
  // Of a block of `tokens` tokens.
  int64_t bytes(int64_t tokens) const;
};

// The pools of so many blocks: keys [blocks * tokens, G, d] and values [blocks * tokens, G, e] of a layer, or states
// [blocks, ...].
std::vector<Type> pool_types(const std::vector<KeyValueShape>& shapes, int64_t blocks, int64_t tokens);

// Where the tokens of a pass stand.
struct PagedTokens {
  Tensor slots;         // i64 [N]: block * size + place in the block, where a token's keys go; -1: nowhere
  Tensor block_tables;  // i32 [N, M]: the blocks of each token's text
  Tensor lengths;       // i32 [N]: how many tokens of its text a token sees, itself the last
};

class PagedCache : public KeyValueCache {
 public:
  // Of a pass that only finds out what the layers keep (shapes()); its values mean nothing.
  PagedCache() = default;
  // The pools of each layer, in blocks of `block_size` tokens one behind the other: keys [tokens, G, d], values
  // [tokens, G, e].
  PagedCache(std::vector<KeysAndValues> pools, int64_t block_size, PagedTokens tokens, std::vector<Tensor> states = {});

  // Input rows are [1, N]. Throws kUnsupported for attention with a bias: it is not a function of tokens alone.
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                const AttentionOptions& options, const Computing& computing, const Tensor& sinks) override;
  Tensor state(size_t number) const override;
  void set_state(size_t number, Tensor state) override;
  bool has_state_pools() const override { return true; }
  StatePlaces state_places(size_t number, const Type& one) override;
  void set_state_pool(size_t number, Tensor pool) override;
  // With the keys and values of the pass.
  const std::vector<KeysAndValues>& pools() const { return pools_; }
  const std::vector<Tensor>& states() const { return states_; }
  const std::vector<KeyValueShape>& shapes() const { return shapes_; }
  const std::vector<KeyValueShape>& state_shapes() const { return state_shapes_; }

 private:
  std::vector<KeysAndValues> pools_;
  std::vector<Tensor> states_;  // pools of them
  std::vector<KeyValueShape> shapes_, state_shapes_;
  int64_t block_size_ = 0;
  PagedTokens tokens_;
  Tensor from_, to_;  // of states_, as soon as they are asked for
};

}  // namespace transom
