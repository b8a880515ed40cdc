// SPDX-License-Identifier: Apache-2.0
// Keys and values that a decoder has computed for the tokens so far, so that the next token costs one token's work.
//
// In the first pass, the prompt's, a layer is given back its own keys and values: S is T. After that, S is the
// capacity: the buffers have room for more places than are taken. Where the next tokens go is an input of the graph, so
// one program serves all steps until the room is used up; then it doubles. The buffers are given to the program that
// computes the new ones, which writes in place. Letters: B rows, T new tokens, S places, G heads, D hidden.
#pragma once

#include <optional>
#include <vector>

#include "graph/ops/recurrence/state_places.h"
#include "transom/ops.h"

namespace transom {

struct KeysAndValues {
  Tensor keys, values;  // [B, S, G, d], [B, S, G, e]
};

// Keys and values of pictures beside the text, which layers read that have no other keys (Llama 3.2 Vision). They lie
// in blocks of R places, as those of a paged cache do: a block is a part of a picture.
struct SeenSources {
  std::vector<KeysAndValues> layers;  // of each layer that reads them: [blocks R, G, d]
  Tensor tables;                      // i32 [B T, M]: the blocks that each token of the pass sees
  Tensor lengths;                     // i32 [B T]: and how many places of them, 1 or more
  Tensor reads;  // i64 [B T]: 0: the token's text has no pictures; 1: it stands before all of them; 2: behind one
};

class KeyValueCache {
 public:
  virtual ~KeyValueCache() = default;
  // For `rows` rows whose first tokens are masked by `mask` (row-major [rows, prompt length]; 0: padding).
  KeyValueCache(int64_t rows, std::vector<int64_t> mask);

  // Of a pass that is traced for other runtimes: keys and values of P places a layer and the mask [B, P + T] of those
  // and of the T tokens to come are inputs. It grows by concatenation, so that its extents show in the trace.
  KeyValueCache(std::vector<KeysAndValues> past, Tensor mask);

  // ---- for whoever drives the decoder
  // Before the first pass: places before all tokens, of which layer i has these keys and values [1, n, G, d] for every
  // row. The mask has them at its beginning.
  void seed(std::vector<KeysAndValues> layers);
  // Makes room for that many tokens, which the next forward pass appends.
  void begin(int64_t tokens);
  // Takes note that they are there.
  void end();
  // Row i goes on from what row `sources`[i] has seen; i64 [B]. Rows of one prompt only: masks stay.
  void reorder(const Tensor& sources);
  // Each row becomes `times` rows, one behind the other; encoder_layers stay, which attention_to_source reads for them.
  void repeat(int64_t times);
  // All that is held, to be computed together with the logits.
  std::vector<Tensor> tensors() const;
  // Room for that many tokens from the beginning, so that nothing is made anew as the text grows. Before the first
  // pass.
  void reserve(int64_t tokens);
  // What a pass behind the prompt reads and writes, as arguments of a compiled function: first the keys, values and
  // states that it replaces (updated() of them), then what it only reads. take() leaves the cache without them; put()
  // gives it those, or others in their place.
  std::vector<Tensor> take();
  void put(const std::vector<Tensor>& state);
  size_t updated() const { return 2 * layers_.size() + states_.size(); }
  int64_t rows() const { return rows_; }
  int64_t length() const { return length_; }      // tokens so far
  int64_t capacity() const { return capacity_; }  // places that there are

  // ---- for the layers of a decoder, during a forward pass
  // The causal attention of new tokens, q [B, T, H, d], k [B, T, G, d] and v [B, T, G, e] -> [B, T, H, e], of a cache
  // that computes it by itself (PagedCache); `sinks` may be undefined. Undefined: append() and visible() are what the
  // layer needs.
  virtual Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                        const AttentionOptions& options, const Computing& computing, const Tensor& sinks);
  // Adds keys [B, T, G, d] and values [B, T, G, e] of the new tokens; gives those of all S places.
  KeysAndValues append(int64_t layer, const Tensor& keys, const Tensor& values);
  // What is added to scores, [B, 1, T, S]: each new token sees itself and what stands before it, but no padding, and no
  // more than `sliding_window` tokens unless that is 0.
  Tensor visible(int64_t tokens, int64_t sliding_window);
  // Whether this pass is the prompt's. What stands before a token then follows from its place, so that causal attention
  // needs no more than of_padding() and leaves out what is hidden.
  bool reads_prompt() const { return length_ == 0 && !concatenates_; }
  // What is added to scores so that no token sees padding, [B, 1, 1, S].
  Tensor of_padding();
  // 1 where a place holds, or will hold, a token, 0 where it holds padding: i64 [B, S].
  const Tensor& places() const { return places_; }

  // ---- of layers that keep something else than keys and values of each token: the state of a recurrence, the last
  // inputs of a convolution. By numbers from 0 on; in the first pass there is none (undefined), and each pass sets all.
  // What stands before a text is padding (places()), which a state must not see.
  virtual Tensor state(size_t number) const;
  virtual void set_state(size_t number, Tensor state);  // [B, ...], of one type in all passes
  // A cache of tokens of any texts (PagedCache) has no state() of a row (kUnsupported): models that know no other are
  // computed row by row. It has a pool of the states of all texts, each of the type `one`, which a layer reads and
  // writes by operations on pools (graph/ops/recurrence). In a pass that only finds out what layers keep there is no
  // pool yet.
  virtual bool has_state_pools() const { return false; }
  virtual StatePlaces state_places(size_t number, const Type& one);
  virtual void set_state_pool(size_t number, Tensor pool);

  // ---- of encoder-decoder models: what the encoder made, and its keys and values in each decoder layer, which the
  // first pass computes (append has no part in them).
  Tensor encoder_states;  // [B, S', D]
  Tensor encoder_mask;    // [B, S'] as the encoder was given it, or empty
  std::vector<KeysAndValues> encoder_layers;

  // ---- of models whose layers read pictures beside the tokens: those of the texts of this pass. None: they have none.
  std::optional<SeenSources> sources;

 protected:
  KeyValueCache() = default;

 private:
  void make_places();
  void forget_visible();
  int64_t rows_ = 0, prompt_ = 0, length_ = 0, coming_ = 0, capacity_ = 0;
  int64_t seen_ = 0;  // S of the present pass
  std::vector<int64_t> mask_;
  Tensor start_;  // i64 [4]: where the new tokens go, (0, length, 0, 0)
  Tensor places_;
  std::vector<KeysAndValues> layers_;
  std::vector<Tensor> states_;
  bool concatenates_ = false;
  struct Visible {
    int64_t window;
    Tensor bias;
  };
  std::vector<Visible> visible_;  // of the present pass, by window
  Tensor padding_;                // the same
};

}  // namespace transom
