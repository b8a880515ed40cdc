// SPDX-License-Identifier: Apache-2.0
// What encoder-decoder models share: the way from inputs through both stacks, and the model that generates a text from
// what its encoder read. B batch, T time of the decoder, S of the encoder, D hidden, V vocabulary.
#pragma once

#include "models/nn/weight.h"
#include "models/shared/decoder.h"
#include "models/shared/encoder_body.h"
#include "models/shared/encoder_heads.h"

namespace transom {

// What the decoder reads of the encoder.
struct EncodedSource {
  Tensor states;  // [B, S, D]
  Tensor mask;    // additive, broadcasts to [B, H, T, S], or empty
  // Receives what each decoder layer sees of it, [B, H, T, S] in f32, where somebody asks; of layers that tell it.
  std::vector<Tensor>* seen = nullptr;
};

// Keys and values of the source in one decoder layer: computed, or taken from the cache after its first pass.
template <typename Project>
KeysAndValues source_keys(int64_t layer, const EncodedSource& source, ForwardContext& context, Project&& project) {
  if (!context.cache) return project(source.states);
  auto& known = context.cache->encoder_layers;
  const auto place = static_cast<size_t>(layer);
  if (known.size() <= place) known.resize(place + 1);
  if (!known[place].keys.defined()) known[place] = project(source.states);
  return known[place];
}

// Attention of q [R, T, H, d] to a source of B rows, R a multiple of B: rows that follow each other (the beams of a
// text) read one row of the source, which is not repeated for them. Gives [R, T, H d].
Tensor attention_to_source(const Tensor& q, const KeysAndValues& seen, const Tensor& mask, double scale,
                           const Dropout& dropout, ForwardContext& context);
// How much each place of q [B, T, H, d] sees of the source's keys [B, S, H, d]: [B, H, T, S] in f32.
Tensor weights_on_source(const Tensor& q, const Tensor& keys, const Tensor& mask, double scale,
                         const Computing& computing);

struct EncoderDecoderOutput {
  DecoderOutput decoder;
  EncoderOutput encoder;
};

// Both stacks of a model.
class EncoderDecoder {
 public:
  virtual ~EncoderDecoder() = default;
  virtual EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const = 0;
  virtual DecoderOutput decode(const DecoderInputs& inputs, const EncodedSource& source,
                               ForwardContext& context) const = 0;
  // The mask of the source for the decoder, from the encoder's inputs; empty if the decoder sees all.
  virtual Tensor source_mask(const NamedTensors& inputs) const { return inputs.find("attention_mask"); }
  virtual int64_t max_target_positions() const { return 0; }  // 0: no limit

  // Through both, the decoder reading decoder_input_ids or decoder_inputs_embeds, or else `ids`.
  EncoderDecoderOutput operator()(const NamedTensors& inputs, const Tensor& ids, ForwardContext& context) const;
};

const std::vector<std::string>& encoder_decoder_input_names();

// last_hidden_state (of the decoder), what the encoder gave, and the hidden states if they are asked for.
NamedTensors body_outputs(const EncoderDecoderOutput& output);
// The same without last_hidden_state, behind the outputs of a head.
NamedTensors with_body_outputs(NamedTensors outputs, const EncoderDecoderOutput& output);

// Ids [B, T] one place to the right, behind `start`; -100 becomes padding.
Tensor shifted_right(const Tensor& ids, int64_t start, int64_t padding);

// The hidden states [B, T, D] at the last token of each row that is `id`: [B, D]; zeros for a row without one.
Tensor at_last(const Tensor& hidden, const Tensor& ids, int64_t id);

// The word embedding of both stacks: "shared" under the scope, or where a checkpoint that holds it once has put it.
// Where it is not `tied`, stacks may have words of their own beside it.
Embedding shared_embedding(const Scope& scope, int64_t vocabulary, int64_t width, double deviation,
                           int64_t padding = -1, bool tied = true);

// The layer over the vocabulary, without a bias: the word embedding's weight, or one of its own, named `weight`.
class VocabularyHead {
 public:
  VocabularyHead(const Scope& scope, const std::string& weight, const Embedding& embedding, bool tied, int64_t width,
                 int64_t vocabulary, double deviation);
  // [..., D] -> [..., V]
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return linear(hidden, *weight_, {}, context);
  }

 private:
  std::shared_ptr<Parameter> weight_;
};

// A classifier on the state of the last end-of-text token, as BART and T5 have it: [B, D] -> [B, labels].
class TextClassificationHead {
 public:
  TextClassificationHead(const Scope& scope, int64_t width, int64_t labels, double dropout, double deviation)
      : dropout_(dropout),
        dense_(scope / "dense", width, width, {.deviation = deviation}),
        out_proj_(scope / "out_proj", width, labels, {.deviation = deviation}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return out_proj_(dropout_(tanh(dense_(dropout_(x, context), context)), context), context);
  }

 private:
  Dropout dropout_;
  Linear dense_, out_proj_;
};

// A model that writes a text token by token: logits over the vocabulary, the loss of labels, and generation.
class ConditionalGenerationModel : public GenerativeModel {
 public:
  bool has_encoder() const override { return true; }
  int64_t max_positions() const override { return body().max_target_positions(); }
  // The logits [B, T, V] behind each of the tokens [B, T], which the context's cache has not seen yet; the cache holds
  // the encoder's states, or its keys and values in each layer.
  Tensor decoder_logits(const Tensor& input_ids, const Tensor& position_ids, ForwardContext& context) const;

 protected:
  ConditionalGenerationModel(int64_t decoder_start_token_id, int64_t pad_token_id)
      : decoder_start_token_id_(decoder_start_token_id), pad_token_id_(pad_token_id) {}
  virtual const EncoderDecoder& body() const = 0;
  Tensor decoder_states(const Tensor& input_ids, const Tensor& position_ids, ForwardContext& context) const;
  virtual Tensor logits(const Tensor& hidden, ForwardContext& context) const = 0;  // [B, T, D] -> [B, T, V]
  virtual Tensor decoder_ids(const Tensor& labels) const;  // what the decoder reads where it is given labels alone

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override;
  void run_encoder(const NamedTensors& inputs, ForwardContext& context) const override;
  Tensor run_step(const PassInputs& pass, ForwardContext& context) const override;
  std::vector<std::string> input_names() const override;

  int64_t decoder_start_token_id_, pad_token_id_;
};

}  // namespace transom
