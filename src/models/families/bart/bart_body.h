// SPDX-License-Identifier: Apache-2.0
// The body of BART (Lewis et al., 2020) and its classes, which mBART, M2M-100 and Pegasus share: each is a BartVariant
// and a record. B batch, T time of the decoder, S of the encoder, D hidden, V vocabulary.
#pragma once

#include <optional>

#include "models/families/bart/bart_layers.h"
#include "models/shared/blocks/position_bias.h"

namespace transom {

// Sines and then cosines of positions at falling frequencies, [positions, D]: not trained, and saved again only where
// the checkpoint holds them.
std::shared_ptr<Parameter> sinusoid_table(const Scope& scope, int64_t positions, int64_t width);

// One of both stacks.
class BartEmbeddings {
 public:
  BartEmbeddings(const Scope& scope, const BartConfig& config, const Embedding& words, bool decoder);
  // ids or embeds; positions [B or 1, T] as `positions` of the variant counts them -> [B, T, D]
  Tensor operator()(const Tensor& ids, const Tensor& embeds, const Tensor& positions, ForwardContext& context) const;

 private:
  double scale_;
  bool scales_given_;  // embeddings in place of ids too
  Embedding embed_tokens_;
  std::optional<Embedding> learned_;
  std::shared_ptr<Parameter> table_;
  std::optional<PositionVectors> waves_;
  std::optional<LayerNorm> norm_;
  Dropout dropout_;
};

class BartBody : public EncoderDecoder {
 public:
  BartBody(const Scope& scope, const BartConfig& config);
  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override;
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override;
  int64_t max_target_positions() const override { return past_padding() ? 0 : c_.max_position_embeddings; }

  Embedding shared;

 private:
  bool past_padding() const { return c_.positions == BartVariant::Positions::kPastPadding; }
  Embedding words_of(const Scope& stack) const;
  Tensor decoder_places(const DecoderInputs& in) const;

  BartConfig c_;
  BartEmbeddings encoder_embeddings_, decoder_embeddings_;
  std::vector<BartEncoderLayer> encoder_layers_;
  std::vector<BartDecoderLayer> decoder_layers_;
  std::optional<LayerNorm> encoder_norm_, decoder_norm_;
};

// What the decoder reads where it is given labels, or the encoder's ids, alone.
Tensor bart_shifted(const Tensor& ids, const BartConfig& config);

// ---- classes

class BartWithHead : public Model {
 protected:
  BartWithHead(const BartConfig& config, const Scope& scope) : c_(config), model_(scope, c_) {}
  std::vector<std::string> input_names() const override { return encoder_decoder_input_names(); }
  // The decoder reads the encoder's ids, shifted, where it is given none of its own.
  EncoderDecoderOutput through(const NamedTensors& inputs, ForwardContext& context) const;

  BartConfig c_;
  BartBody model_;
};

// `reads_itself`: the decoder reads the encoder's ids where nothing else is given.
template <bool reads_itself>
class BartBare : public BartWithHead {
 public:
  BartBare(const BartConfig& config, const Scope& scope) : BartWithHead(config, scope) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return body_outputs(reads_itself ? through(inputs, context) : model_(inputs, {}, context));
  }
};

class BartGeneration : public ConditionalGenerationModel {
 public:
  BartGeneration(const BartConfig& config, const Scope& scope);

 protected:
  const EncoderDecoder& body() const override { return model_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override;
  Tensor decoder_ids(const Tensor& labels) const override { return bart_shifted(labels, c_); }

 private:
  BartConfig c_;
  BartBody model_;
  VocabularyHead lm_head_;
  std::shared_ptr<Parameter> final_logits_bias_;
};

// A class for the text, from the state of the decoder's last end-of-text token.
class BartSequenceClassifier : public BartWithHead {
 public:
  BartSequenceClassifier(const BartConfig& config, const Scope& scope);

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override;

 private:
  TextClassificationHead classification_head_;
};

class BartAnswers : public BartWithHead {
 public:
  BartAnswers(const BartConfig& config, const Scope& scope);

 protected:
  std::vector<std::string> input_names() const override;
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override;

 private:
  Linear qa_outputs_;
};

template <const BartVariant& variant, typename M>
std::unique_ptr<Model> make_bart(const Config& config, const Scope& scope) {
  return std::make_unique<M>(BartConfig(config, variant), scope);
}

// ---- records

Architecture bart_generation(const std::string& name, std::unique_ptr<Model> (*make)(const Config&, const Scope&),
                             bool logits_bias);
FamilyWeights bart_weights();

}  // namespace transom
