// SPDX-License-Identifier: Apache-2.0
// BART (Lewis et al., 2020): a post-norm transformer with learned positions, which start at 2, and a norm behind the
// embeddings. B batch, T time, S time of the source, D hidden, V vocabulary.
#include "models/families/bart/bart_layers.h"

namespace transom {
namespace {

constexpr int64_t kOffset = 2;  // of positions
constexpr double kEpsilon = 1e-5;

class BartEmbeddings {
 public:
  BartEmbeddings(const Scope& scope, const BartConfig& c, const Embedding& shared)
      : scale_(c.embed_scale()),
        embed_tokens_(shared),
        embed_positions_(scope / "embed_positions", c.max_position_embeddings + kOffset, c.d_model, c.init_std),
        layernorm_embedding_(scope / "layernorm_embedding", c.d_model, kEpsilon),
        dropout_(c.dropout) {}

  Tensor operator()(const Tensor& ids, const Tensor& embeds, const Tensor& positions, ForwardContext& context) const {
    const Tensor words = embeds.defined() ? embeds : embed_tokens_(ids, context) * scale_;
    return dropout_(
        layernorm_embedding_(words + embed_positions_(positions + static_cast<double>(kOffset), context), context),
        context);
  }

 private:
  double scale_;
  Embedding embed_tokens_, embed_positions_;
  LayerNorm layernorm_embedding_;
  Dropout dropout_;
};

class Bart : public EncoderDecoder {
 public:
  Bart(const Scope& scope, const BartConfig& c)
      : shared(shared_embedding(scope, c.vocab_size, c.d_model, c.init_std, c.pad_token_id, c.tie_word_embeddings)),
        max_position_embeddings_(c.max_position_embeddings),
        encoder_embeddings_(scope / "encoder", c, words_of(scope / "encoder", c)),
        decoder_embeddings_(scope / "decoder", c, words_of(scope / "decoder", c)) {
    for (int64_t i = 0; i < c.encoder_layers; ++i) encoder_layers_.emplace_back(scope / "encoder" / "layers" / i, c);
    for (int64_t i = 0; i < c.decoder_layers; ++i) decoder_layers_.emplace_back(scope / "decoder" / "layers" / i, c, i);
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderInputs in = encoder_inputs(inputs, max_position_embeddings_);
    const Tensor x = encoder_embeddings_(in.input_ids, in.inputs_embeds, in.position_ids, context);
    return through_layers(encoder_layers_, x, in.mask, context);
  }

  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    const Tensor x = decoder_embeddings_(in.input_ids, in.inputs_embeds, in.position_ids, context);
    const auto call = [&](const BartDecoderLayer& layer, const Tensor& y) { return layer(y, in, source, context); };
    return through_decoder(
        decoder_layers_, x, context, [](const Tensor& y, ForwardContext&) { return y; }, call);
  }

  int64_t max_target_positions() const override { return max_position_embeddings_; }

  Embedding shared;

 private:
  // Untied models may hold an embedding for each stack.
  Embedding words_of(const Scope& stack, const BartConfig& c) const {
    if (c.tie_word_embeddings || !stack.holds("embed_tokens.weight")) return shared;
    return {stack / "embed_tokens", c.vocab_size, c.d_model, c.init_std, c.pad_token_id};
  }

  int64_t max_position_embeddings_;
  BartEmbeddings encoder_embeddings_, decoder_embeddings_;
  std::vector<BartEncoderLayer> encoder_layers_;
  std::vector<BartDecoderLayer> decoder_layers_;
};

// The decoder reads the encoder's ids, shifted, where it is given none of its own.
class BartWithHead : public Model {
 protected:
  BartWithHead(const Config& config, const Scope& scope, const std::string& prefix = "model")
      : c_(config), model_(prefix.empty() ? scope : scope / prefix, c_) {}
  std::vector<std::string> input_names() const override { return encoder_decoder_input_names(); }
  EncoderDecoderOutput through(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor ids = inputs.find("input_ids");
    return model_(inputs, ids.defined() ? shifted_right(ids, c_.decoder_start_token_id, c_.pad_token_id) : ids,
                  context);
  }

  BartConfig c_;
  Bart model_;
};

class BartModel : public BartWithHead {
 public:
  BartModel(const Config& config, const Scope& scope) : BartWithHead(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return body_outputs(through(inputs, context));
  }
};

class BartForConditionalGeneration : public ConditionalGenerationModel {
 public:
  BartForConditionalGeneration(const Config& config, const Scope& scope)
      : BartForConditionalGeneration(BartConfig(config), scope) {}
  BartForConditionalGeneration(const BartConfig& c, const Scope& scope)
      : ConditionalGenerationModel(c.decoder_start_token_id, c.pad_token_id),
        model_(scope / "model", c),
        lm_head_(scope, "lm_head.weight", model_.shared, c.tie_word_embeddings, c.d_model, c.vocab_size, c.init_std),
        final_logits_bias_(scope.buffer("final_logits_bias", {DType::kFloat32, {1, c.vocab_size}}, Initial::zeros())) {}

 protected:
  const EncoderDecoder& body() const override { return model_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override {
    const Tensor logits = lm_head_(hidden, context);
    return logits + cast(final_logits_bias_->value, logits.dtype());
  }

 private:
  Bart model_;
  VocabularyHead lm_head_;
  std::shared_ptr<Parameter> final_logits_bias_;
};

// A class for the text, from the state of the decoder's last end-of-text token.
class BartForSequenceClassification : public BartWithHead {
 public:
  BartForSequenceClassification(const Config& config, const Scope& scope)
      : BartWithHead(config, scope),
        classification_head_(scope / "classification_head", c_.d_model, c_.num_labels, c_.classifier_dropout,
                             c_.init_std) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderDecoderOutput output = through(inputs, context);
    const Tensor state = at_last(output.decoder.last_hidden_state, inputs.at("input_ids"), c_.eos_token_id);
    const Tensor logits = classification_head_(state, context);
    return with_body_outputs(sequence_classification_outputs(logits, inputs, c_.problem_type, context), output);
  }

 private:
  TextClassificationHead classification_head_;
};

class BartForQuestionAnswering : public BartWithHead {
 public:
  BartForQuestionAnswering(const Config& config, const Scope& scope)
      : BartWithHead(config, scope), qa_outputs_(scope / "qa_outputs", c_.d_model, 2, c_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_decoder_input_names();
    names.back() = "start_positions";
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderDecoderOutput output = through(inputs, context);
    return with_body_outputs(span_outputs(qa_outputs_(output.decoder.last_hidden_state, context), inputs, context),
                             output);
  }

 private:
  Linear qa_outputs_;
};

// The body decodes the text itself where nothing is given; files that optimum-onnx exports take both.
FamilyInputs body_inputs() {
  FamilyInputs inputs = text_to_text_inputs();
  inputs.back().needed = false;
  return inputs;
}

}  // namespace

static Family bart_family() {
  return {
      .model_type = "bart",
      .base_prefix = "model",
      .architectures = {{"BartModel", body_head({"feature-extraction"}), make_model<BartModel>, body_inputs()},
                        {"BartForConditionalGeneration",
                         sequence_to_sequence_head({"text2text-generation", "summarization", "translation"},
                                                   {"lm_head", "final_logits_bias"}, "lm_head"),
                         make_model<BartForConditionalGeneration>},
                        {"BartForSequenceClassification", sequence_classification_head({"classification_head"}),
                         make_model<BartForSequenceClassification>, text_to_text_inputs(false)},
                        {"BartForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<BartForQuestionAnswering>, text_to_text_inputs(false)}},
      .inputs = text_to_text_inputs(),
      .processors = {.tokenizer = "Bart",
                     .image_processor = none,
                     .positions = PositionLimit{{"max_position_embeddings"}},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"q_proj", "v_proj"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"q_proj", "v_proj", "fc2"},
                                      .ia3_feedforward = {"fc2"},
                                      .norms = {"self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"},
                                      .adalora = {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}}},
      .foreign = {.gguf = none,
                  .keras = KerasNames{.body = "model", .joint = ".", .without = {"BartForQuestionAnswering"}},
                  .flax = FlaxNames{}},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kBartFamily{bart_family};

}  // namespace transom
