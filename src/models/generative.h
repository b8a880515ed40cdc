// SPDX-License-Identifier: Apache-2.0
// What text generation (src/work/generation) asks of a model, decoder-only or encoder-decoder.
//
// Generation owns a KeyValueCache (nn/cache.h), puts it into the ForwardContext, and gives the model the new tokens
// only:
//
//   encode(inputs, context)    encoder-decoder models, once: fills context.cache->encoder_states and encoder_mask
//   embed(input)               of each input among the tokens, once: the rows that stand in its places
//   next_logits(pass, context) the prompt (or the decoder's start tokens), then one token at a time
//
// A decoder's layers call cached_attention (nn/attention.h) in place of attention; nothing else in them changes. The
// cross-attention of an encoder-decoder reads context.cache->encoder_layers[i], which the layer fills in the first pass
// (where it is still empty) from encoder_states, with attention_to_source and
// additive_mask(encoder_mask). Beams and returned sequences are rows: encode is given the inputs of the original rows,
// and the rows of a text read one row of encoder_layers together.
#pragma once

#include "models/nn/attention/cache.h"
#include "transom/model_inputs.h"

namespace transom {

// The tokens of a pass, which the context's cache has not seen yet. Letters: B rows, T tokens, D width.
struct PassInputs {
  Tensor input_ids;     // i64 [B, T]
  Tensor position_ids;  // i64 [B, T], from 0 without padding; of a family with several axes [axes, B, T]
  // f32 [B, T, D] and i64 [B, T]: where the second is not 0 the row stands in place of the token's embedding. Both or
  // neither.
  Tensor embeddings = {}, is_given = {};
};

// Where the tokens of a text stand for a family with several numbers a place (rotary positions by time, height, width).
struct TextPositions {
  std::vector<std::vector<int64_t>> prompt;  // [axes][T], T tokens without padding
  int64_t delta = 0;                         // a token behind the prompt stands at its place + delta on every axis
  int64_t at(size_t axis, int64_t place) const {
    const std::vector<int64_t>& known = prompt[axis];
    return place < static_cast<int64_t>(known.size()) ? known[static_cast<size_t>(place)] : place + delta;
  }
};

// The tokens between which a model writes.
struct TextEnds {
  int64_t start, end, padding;
};

// A picture that layers read beside the tokens, by attention, in parts (tiles) of R places each.
struct AttendedPicture {
  std::vector<KeysAndValues> layers;  // of each layer that reads it: [parts R, G, d]
  int64_t parts = 0;
  int64_t seen = 0;  // the first so many are what tokens behind the picture see; those before it see all
};

class GenerativeModel : public Model {
 public:
  // Whether an encoder reads the inputs, so that generation begins at decoder_start_token_id.
  virtual bool has_encoder() const { return false; }

  // Whether the model has a head that predicts tokens; bodies and other heads that stand on them have none.
  virtual bool can_generate() const { return true; }
  // The fields of generation_config.json, which is written beside the weights of a model that can generate.
  const Config& generation_config() const { return *generation_config_; }
  Config& generation_config() { return *generation_config_; }

  // Encoder-decoder models: runs the encoder on inputs (input_ids and attention_mask, input_features, ...).
  void encode(const NamedTensors& inputs, ForwardContext& context) const;

  // Of classes with a generate() of their own in Transformers: its arguments as encode() and the decoder read them, and
  // the tokens that it always takes, whatever configurations of generation say.
  virtual NamedTensors generation_inputs(const NamedTensors& inputs) const { return inputs; }
  virtual std::optional<TextEnds> own_text_ends() const { return std::nullopt; }
  // Whether decoder_input_ids need not begin with the decoder's first token, where that hangs on the configuration.
  virtual bool begins_as_given() const { return false; }

  // The width D of the embeddings that may stand in place of tokens; 0: the model reads tokens alone.
  virtual int64_t embedding_width() const { return 0; }
  // Of the inputs of generate() those of each row besides its tokens and masks, with the places that they fill in it.
  // Refuses what it does not know by name. By default inputs_embeds [B, T, D], which fill all T places.
  virtual std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors& inputs) const;
  // What stands in the places of the input, f32 [n, D], not computed yet. Throws where it has not a row for each place.
  Tensor embed(const AttachedInput& input, ForwardContext& context) const;
  // Numbers that say where a token stands. With more than one, positions_of() says which; else they are 0, 1, 2, ...
  virtual int64_t position_axes() const { return 1; }
  // `inputs` without padding.
  virtual TextPositions positions_of(const ModelInputs& inputs) const;

  // R of models whose layers read pictures beside the tokens; 0: the model reads none so. Of such models an input has
  // one place, where it stands among the tokens, and makes no row for it: a token sees the picture before it and those
  // that stand right before that one, or, before the first picture of its text, all of them.
  virtual int64_t source_rows() const { return 0; }
  // Of such an input, not computed yet.
  AttendedPicture source_of(const AttachedInput& input, ForwardContext& context) const;

  // The logits [B, V], f32, of what follows the tokens.
  Tensor next_logits(const PassInputs& pass, ForwardContext& context) const;
  // Of a model without an encoder: the same behind each of the last `count` tokens, [B, count, V].
  Tensor last_logits(const PassInputs& pass, int64_t count, ForwardContext& context) const;

  // The most tokens that one text may have; 0: no limit.
  virtual int64_t max_positions() const { return 0; }
  // At this length the cache no longer holds what the model would compute (long and short rotary factors); the text so
  // far is then given anew. 0: never. -1: at every length, the model keeps no keys and values.
  virtual int64_t cache_expires_at() const { return 0; }
  // Whether one program serves every step behind the prompt, since how many tokens there are is an input of it.
  // Otherwise each step is a pass of its own.
  virtual bool one_program_for_all_steps() const { return true; }

 protected:
  // What encode() and next_logits() compute, in the model's precision. run_step() of a model without an encoder runs
  // the forward pass with both inputs and takes "logits".
  virtual void run_encoder(const NamedTensors& inputs, ForwardContext& context) const;
  virtual Tensor run_step(const PassInputs& pass, ForwardContext& context) const;
  // What embed() gives, [n, D], in the model's precision. By default of inputs_embeds alone.
  virtual Tensor run_embedding(const NamedTensors& tensors, ForwardContext& context) const;
  // What source_of() gives, in the model's precision.
  virtual AttendedPicture run_source(const NamedTensors& tensors, ForwardContext& context) const;
  // Of a model with an embedding_width(): the embeddings [B, T, D] of tokens, as inputs_embeds has them.
  virtual Tensor embeddings_of(const Tensor& input_ids, ForwardContext& context) const;

 private:
  friend class ModelLoader;
  std::shared_ptr<Config> generation_config_;  // set where the model is loaded
};

}  // namespace transom
