// SPDX-License-Identifier: Apache-2.0
// A model that reads texts token by token, and what it predicts: drives a GenerativeModel and its KV cache.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/generative.h"
#include "transom/compile.h"
#include "transom/generation.h"
#include "work/generation/embedded_inputs.h"
#include "work/generation/seen_sources.h"

namespace transom {

class VirtualTokens;  // models/loading/adapters/virtual_tokens.h

// What is known of prompts besides their tokens.
struct DecodingPrompts {
  std::vector<TokenIds> mask;        // [rows][prompt length], 1 for tokens, 0 for padding
  NamedTensors encoder_inputs = {};  // of a model with an encoder, for all rows
  // Of each row, with places among those of the mask; empty: none.
  std::vector<std::vector<AttachedInput>> attached = {};
  int64_t untold = 0;  // so many places, the first ones, have no token in the rows: inputs fill them all
};

class Decoding {
 public:
  // Texts get no longer than `max_length`, the untold places counted. `computing` is of all its passes.
  Decoding(const GenerativeModel& model, DecodingPrompts prompts, int64_t max_length, bool use_cache,
           const Computing& computing);

  // The scores of the next token behind each of the rows, [rows, V] in f32. Rows are longer than at the last call, by
  // what the model then reads; at the first call they are the prompts.
  std::vector<float> next(const std::vector<TokenIds>& rows);
  // The pass of next() on a process that follows another one's choices (see search_together): `ids` are the tokens of
  // each row that were not read yet, one row behind the other, 0 where there is none, `length` is that of the rows with
  // the untold places. Gives [rows, V].
  Tensor read(const std::vector<int64_t>& ids, int64_t length);
  bool is_reading() const { return is_reading_; }  // true too after an error of a pass
  // Each row from now on stands for `times` rows, one behind the other.
  void repeat(int64_t times);
  // Row i goes on from row `sources`[i].
  void reorder(const std::vector<int64_t>& sources);
  // What a decoding of these prompts goes by, as numbers that are equal on processes whose prompts, masks, inputs of
  // the encoder and limits are: for who repeats another one's passes.
  struct Beginning {
    int64_t prompts = 0, masks = 0, encoder_inputs = 0, attached = 0, max_length = 0, use_cache = 0;
  };
  Beginning beginning(const std::vector<TokenIds>& rows) const;
  int64_t vocabulary() const { return vocabulary_; }  // V; after the first call

 private:
  bool begins_anew(int64_t length) const;
  void restart();
  void put_before(const VirtualTokens& tokens);
  PassInputs inputs_of(const std::vector<int64_t>& ids, int64_t length);
  std::vector<int64_t> positions_of(const std::vector<int64_t>& ids, int64_t length);
  void embed();
  void make_sources();
  std::optional<SeenSources> sources_of_pass(int64_t length);
  Tensor pass(const PassInputs& inputs);
  Tensor step(const PassInputs& inputs);
  const GenerativeModel& model_;
  NamedTensors encoder_inputs_;
  std::vector<TokenIds> mask_;
  std::vector<std::vector<AttachedInput>> attached_;
  int64_t untold_, max_length_, filled_ = 0;                     // filled_: behind the last place that an input fills
  std::vector<KeysAndValues> before_;                            // of virtual tokens, with which each cache begins
  int64_t seeded_ = 0;                                           // how many these are
  std::vector<std::shared_ptr<const EmbeddedInputs>> embedded_;  // of each row, from the first pass on that needs them
  std::vector<TextPositions> positions_;                         // likewise, of a model with several axes
  std::vector<KeysAndValues> source_layers_;  // of a model that reads pictures beside its tokens: those of all rows
  std::vector<SourcesOfText> sources_;        // likewise, of each row
  bool use_cache_;
  Computing computing_;
  int64_t vocabulary_ = 0;
  bool is_reading_ = false;
  std::unique_ptr<KeyValueCache> cache_;
  std::optional<CompiledFunction> step_;  // one token further: traced once for each capacity
};

}  // namespace transom
