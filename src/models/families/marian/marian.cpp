// SPDX-License-Identifier: Apache-2.0
// Marian (Junczys-Dowmunt et al., 2018), the translation models of Opus-MT: BART's layers over sinusoidal positions,
// which hardly any checkpoint holds. B batch, T time, D hidden, V vocabulary.
#include "models/families/bart/bart_body.h"

namespace transom {
namespace {

struct MarianConfig : BartConfig {
  explicit MarianConfig(const Config& config)
      : BartConfig(with_defaults(config, R"({"vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0,
                                             "decoder_start_token_id": 58100})")),
        share_encoder_decoder_embeddings(config.get_bool("share_encoder_decoder_embeddings", true)),
        decoder_vocab_size(config.get_int("decoder_vocab_size", vocab_size)) {
    // Positions are sinusoids whatever it says, as in Transformers.
    config.get_bool("static_position_embeddings", true);
    refuse_unless(config, "normalize_embedding", "false");
    if (share_encoder_decoder_embeddings) decoder_vocab_size = vocab_size;
  }
  bool share_encoder_decoder_embeddings;
  int64_t decoder_vocab_size;
};

std::shared_ptr<Parameter> positions_of(const Scope& scope, const MarianConfig& c) {
  return sinusoid_table(scope, c.max_position_embeddings, c.d_model);
}

class Marian : public EncoderDecoder {
 public:
  Marian(const Scope& scope, const MarianConfig& c)
      : encoder_tokens(
            shares_words(scope, c)
                ? shared_embedding(scope, c.vocab_size, c.d_model, c.init_std, c.pad_token_id)
                : Embedding(scope / "encoder" / "embed_tokens", c.vocab_size, c.d_model, c.init_std, c.pad_token_id)),
        decoder_tokens(shares_words(scope, c) ? encoder_tokens
                                              : Embedding(scope / "decoder" / "embed_tokens", c.decoder_vocab_size,
                                                          c.d_model, c.init_std, c.pad_token_id)),
        scale_(c.embed_scale()),
        max_position_embeddings_(c.max_position_embeddings),
        encoder_positions_(positions_of(scope / "encoder" / "embed_positions", c)),
        decoder_positions_(positions_of(scope / "decoder" / "embed_positions", c)),
        dropout_(c.dropout) {
    for (int64_t i = 0; i < c.encoder_layers; ++i) encoder_layers_.emplace_back(scope / "encoder" / "layers" / i, c);
    for (int64_t i = 0; i < c.decoder_layers; ++i) decoder_layers_.emplace_back(scope / "decoder" / "layers" / i, c, i);
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderInputs in = encoder_inputs(inputs, max_position_embeddings_);
    // The encoder takes given embeddings as they are, the decoder scales them too, as in Transformers.
    const Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : encoder_tokens(in.input_ids, context) * scale_;
    return through_layers(encoder_layers_, embedded(x, *encoder_positions_, in.position_ids, context), in.mask,
                          context);
  }

  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    const Tensor x = (in.inputs_embeds.defined() ? in.inputs_embeds : decoder_tokens(in.input_ids, context)) * scale_;
    const auto call = [&](const BartDecoderLayer& layer, const Tensor& y) { return layer(y, in, source, context); };
    return through_decoder(
        decoder_layers_, embedded(x, *decoder_positions_, in.position_ids, context), context,
        [](const Tensor& y, ForwardContext&) { return y; }, call);
  }

  int64_t max_target_positions() const override { return max_position_embeddings_; }

  Embedding encoder_tokens, decoder_tokens;

 private:
  // A checkpoint without ties holds words of their own for both stacks, whatever it says of sharing.
  static bool shares_words(const Scope& scope, const MarianConfig& c) {
    return c.share_encoder_decoder_embeddings && (c.tie_word_embeddings || !scope.holds("encoder.embed_tokens.weight"));
  }
  Tensor embedded(const Tensor& words, const Parameter& positions, const Tensor& position_ids,
                  ForwardContext& context) const {
    return dropout_(words + cast(gather(positions.value, position_ids, 0), words.dtype()), context);
  }

  double scale_;
  int64_t max_position_embeddings_;
  std::shared_ptr<Parameter> encoder_positions_, decoder_positions_;  // [positions, D]
  Dropout dropout_;
  std::vector<BartEncoderLayer> encoder_layers_;
  std::vector<BartDecoderLayer> decoder_layers_;
};

// The decoder must be given its ids.
class MarianModel : public Model {
 public:
  MarianModel(const Config& config, const Scope& scope) : model_(scope, MarianConfig(config)) {}

 protected:
  std::vector<std::string> input_names() const override { return encoder_decoder_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return body_outputs(model_(inputs, {}, context));
  }

 private:
  Marian model_;
};

class MarianMTModel : public ConditionalGenerationModel {
 public:
  MarianMTModel(const Config& config, const Scope& scope) : MarianMTModel(MarianConfig(config), scope) {}
  MarianMTModel(const MarianConfig& c, const Scope& scope)
      : ConditionalGenerationModel(c.decoder_start_token_id, c.pad_token_id),
        model_(scope / "model", c),
        lm_head_(scope, "lm_head.weight", model_.decoder_tokens, c.tie_word_embeddings, c.d_model, c.decoder_vocab_size,
                 c.init_std),
        final_logits_bias_(
            scope.buffer("final_logits_bias", {DType::kFloat32, {1, c.decoder_vocab_size}}, Initial::zeros())) {}

 protected:
  const EncoderDecoder& body() const override { return model_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override {
    const Tensor logits = lm_head_(hidden, context);
    return logits + cast(final_logits_bias_->value, logits.dtype());
  }

 private:
  Marian model_;
  VocabularyHead lm_head_;
  std::shared_ptr<Parameter> final_logits_bias_;
};

// The two languages may have vocabularies of their own.
FamilyHead marian_head() {
  FamilyHead head =
      sequence_to_sequence_head({"translation", "text2text-generation"}, {"lm_head", "final_logits_bias"}, "lm_head");
  head.vocabulary_size = {"decoder_vocab_size", "vocab_size"};
  return head;
}

}  // namespace

static Family marian_family() {
  return {.model_type = "marian",
          .base_prefix = "model",
          .architectures = {{"MarianModel", body_head({"feature-extraction"}), make_model<MarianModel>},
                            {"MarianMTModel", marian_head(), make_model<MarianMTModel>}},
          .inputs = text_to_text_inputs(true, {"decoder_vocab_size", "vocab_size"}),
          .processors = {.tokenizer = "Marian",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "model", .joint = "."},
                      .flax = FlaxNames{.computed = "embed_positions/embedding"}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kMarianFamily{marian_family};

}  // namespace transom
