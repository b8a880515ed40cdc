// SPDX-License-Identifier: Apache-2.0
// Whisper (Radford et al., 2022): two convolutions over log-mel frames, a pre-norm encoder on fixed sinusoidal
// positions, and a decoder that writes the text. B batch, T time of the text, S frames after the convolutions, D
// hidden.
#include <cmath>

#include "base/error.h"
#include "models/families/bart/bart_layers.h"
#include "models/nn/losses/losses.h"
#include "models/nn/spec_augment.h"
#include "models/nn/vision/convolution.h"
#include "models/source_attention.h"

namespace transom {
namespace {

constexpr double kNormEpsilon = 1e-5;

struct WhisperConfig : BartConfig {
  explicit WhisperConfig(const Config& config)
      : BartConfig(with_defaults(config, R"({"vocab_size": 51865, "d_model": 384, "encoder_layers": 4,
            "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_layers": 4, "decoder_attention_heads": 6,
            "decoder_ffn_dim": 1536, "dropout": 0, "pad_token_id": 50256, "eos_token_id": 50256,
            "decoder_start_token_id": 50257})")),
        num_mel_bins(config.get_int("num_mel_bins", 80)),
        max_source_positions(config.get_int("max_source_positions", 1500)),
        max_target_positions(config.get_int("max_target_positions", 448)),
        classifier_proj_size(config.get_int("classifier_proj_size", 256)),
        use_weighted_layer_sum(config.get_bool("use_weighted_layer_sum", false)) {
    norm_before = true;
    key_bias = false;
    if (config.get_bool("apply_spec_augment", false)) {
      time_masking = {config.get_float("mask_time_prob", 0.05), config.get_int("mask_time_length", 10),
                      config.get_int("mask_time_min_masks", 2)};
      feature_masking = {config.get_float("mask_feature_prob", 0), config.get_int("mask_feature_length", 10),
                         config.get_int("mask_feature_min_masks", 0)};
    }
    if (d_model < 4 || d_model % 2 != 0)
      fail("config.json: d_model: expected an even number from 4, found {}", d_model);
  }
  int64_t num_mel_bins, max_source_positions, max_target_positions, classifier_proj_size;
  bool use_weighted_layer_sum;
  SpanMasking time_masking, feature_masking;
};

// Sines, then cosines: what the encoder's positions are unless a checkpoint says else.
std::vector<float> sinusoids(int64_t positions, int64_t width) {
  if (positions < 0 || positions > (int64_t{1} << 28) / width)
    fail("config.json: max_source_positions {} of d_model {} are more than this takes", positions, width);
  const int64_t half = width / 2;
  std::vector<float> values;
  for (int64_t position = 0; position < positions; ++position)
    for (int64_t i = 0; i < width; ++i) {
      const double rate = std::exp(-std::log(10000.0) / static_cast<double>(half - 1) * static_cast<double>(i % half));
      const double angle = static_cast<double>(position) * rate;
      values.push_back(static_cast<float>(i < half ? std::sin(angle) : std::cos(angle)));
    }
  return values;
}

class WhisperEncoder {
 public:
  WhisperEncoder(const Scope& scope, const WhisperConfig& c)
      : path_(scope.path()),
        mel_bins_(c.num_mel_bins),
        frames_(2 * c.max_source_positions),
        time_masking_(c.time_masking),
        feature_masking_(c.feature_masking),
        conv1_(scope / "conv1", c.num_mel_bins, c.d_model, {3}, window(1, c)),
        conv2_(scope / "conv2", c.d_model, c.d_model, {3}, window(2, c)),
        // Fixed in the paper; Transformers trains it once it is loaded, and so does this.
        embed_positions_((scope / "embed_positions")
                             .parameter("weight", {c.max_source_positions, c.d_model},
                                        Initial::given(sinusoids(c.max_source_positions, c.d_model)))),
        layer_norm_(scope / "layer_norm", c.d_model, kNormEpsilon),
        dropout_(c.dropout) {
    for (int64_t i = 0; i < c.encoder_layers; ++i) layers_.emplace_back(scope / "layers" / i, c);
  }

  // input_features [B, mel bins, 2 S] -> [B, S, D]. The last of the hidden states is normed.
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    if (const Tensor known = inputs.find("encoder_outputs"); known.defined()) return {checked(known), {}};
    const Tensor& features = inputs.at("input_features");
    if (features.rank() != 3 || features.dim(1) != mel_bins_ || features.dim(2) != frames_)
      fail("input_features: expected [batch, {}, {}] (pad the sound to the model's length), found {}", mel_bins_,
           frames_, to_string(features.shape()));
    Tensor x;
    {
      const ModuleScope module(path_);
      x = permute(gelu(conv2_(gelu(conv1_(augmented(features, inputs, context), context)), context)), {0, 2, 1});
      x = dropout_(x + cast(embed_positions_->value, x.dtype()), context);
    }
    const auto call = [&](const BartEncoderLayer& layer, const Tensor& y) { return layer(y, {}, context); };
    const DecoderOutput output = through_decoder(layers_, x, context, layer_norm_, call);
    return {output.last_hidden_state, output.hidden_states};
  }

 private:
  // What an earlier pass gave.
  const Tensor& checked(const Tensor& states) const {
    const Shape& positions = embed_positions_->value.shape();
    if (states.rank() != 3 || states.dim(1) != positions[0] || states.dim(2) != positions[1])
      fail("encoder_outputs: expected [batch, {}, {}], found {}", positions[0], positions[1],
           to_string(states.shape()));
    return states;
  }

  static Convolution::Options window(int64_t stride, const WhisperConfig& c) {
    return {.strides = {stride}, .low = {1}, .high = {1}, .deviation = c.init_std};
  }

  Tensor augmented(Tensor x, const NamedTensors& inputs, ForwardContext& context) const {
    if (!context.training) return x;
    const Tensor mask = inputs.find("attention_mask"), zero = full(x.shape(), 0, x.dtype());
    const Tensor lengths = mask.defined() ? reduce_sum(cast(mask, DType::kInt64), {1}) : Tensor();
    if (const Tensor times = masked_spans(x.dim(0), x.dim(2), time_masking_, lengths, context); times.defined())
      x = select(broadcast_to(unsqueeze(times, 1), x.shape()), zero, x);
    if (const Tensor bins = masked_spans(x.dim(0), x.dim(1), feature_masking_, {}, context); bins.defined())
      x = select(broadcast_to(unsqueeze(bins, 2), x.shape()), zero, x);
    return x;
  }

  std::string path_;
  int64_t mel_bins_, frames_;
  SpanMasking time_masking_, feature_masking_;
  Convolution conv1_, conv2_;
  std::shared_ptr<Parameter> embed_positions_;
  std::vector<BartEncoderLayer> layers_;
  LayerNorm layer_norm_;
  Dropout dropout_;
};

class Whisper : public EncoderDecoder {
 public:
  Whisper(const Scope& scope, const WhisperConfig& c)
      : embed_tokens(scope / "decoder" / "embed_tokens", c.vocab_size, c.d_model, c.init_std, c.pad_token_id),
        max_target_positions_(c.max_target_positions),
        encoder_(scope / "encoder", c),
        embed_positions_(scope / "decoder" / "embed_positions", c.max_target_positions, c.d_model, c.init_std),
        layer_norm_(scope / "decoder" / "layer_norm", c.d_model, kNormEpsilon),
        dropout_(c.dropout) {
    for (int64_t i = 0; i < c.decoder_layers; ++i) layers_.emplace_back(scope / "decoder" / "layers" / i, c, i);
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    return encoder_(inputs, context);
  }

  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    const Tensor words = in.inputs_embeds.defined() ? in.inputs_embeds : embed_tokens(in.input_ids, context);
    const Tensor x = dropout_(words + embed_positions_(in.position_ids, context), context);
    const auto call = [&](const BartDecoderLayer& layer, const Tensor& y) { return layer(y, in, source, context); };
    return through_decoder(layers_, x, context, layer_norm_, call);
  }

  // The decoder sees all frames: sounds are padded to one length.
  Tensor source_mask(const NamedTensors&) const override { return {}; }
  int64_t max_target_positions() const override { return max_target_positions_; }

  Embedding embed_tokens;

 private:
  int64_t max_target_positions_;
  WhisperEncoder encoder_;
  Embedding embed_positions_;
  std::vector<BartDecoderLayer> layers_;
  LayerNorm layer_norm_;
  Dropout dropout_;
};

std::vector<std::string> whisper_input_names() {
  return {"input_features",         "attention_mask",        "decoder_input_ids",
          "decoder_attention_mask", "decoder_inputs_embeds", "decoder_position_ids"};
}

class WhisperModel : public Model {
 public:
  WhisperModel(const Config& config, const Scope& scope) : model_(scope, WhisperConfig(config)) {}

 protected:
  std::vector<std::string> input_names() const override { return whisper_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return body_outputs(model_(inputs, {}, context));
  }

 private:
  Whisper model_;
};

class WhisperForConditionalGeneration : public ConditionalGenerationModel, public SourceAttention {
 public:
  WhisperForConditionalGeneration(const Config& config, const Scope& scope)
      : WhisperForConditionalGeneration(WhisperConfig(config), scope) {}
  WhisperForConditionalGeneration(const WhisperConfig& c, const Scope& scope)
      : ConditionalGenerationModel(c.decoder_start_token_id, c.pad_token_id),
        model_(scope / "model", c),
        proj_out_(scope, "proj_out.weight", model_.embed_tokens, c.tie_word_embeddings, c.d_model, c.vocab_size,
                  c.init_std) {}

  Tensor encoder_outputs(const NamedTensors& inputs) const override {
    ForwardContext context;
    prepare(context);
    return model_.encode(inputs, context).last_hidden_state;
  }
  Seen seen(const Tensor& encoder_outputs, const Tensor& decoder_input_ids) const override {
    ForwardContext context;
    prepare(context);
    Seen result;
    const DecoderInputs inputs =
        decoder_inputs({{"input_ids", decoder_input_ids}}, context, Positions::kInOrder, model_.max_target_positions());
    const DecoderOutput output =
        model_.decode(inputs, {.states = encoder_outputs, .mask = {}, .seen = &result.weights}, context);
    result.logits = logits(output.last_hidden_state, context);
    return result;
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = whisper_input_names();
    names.insert(names.end(), {"encoder_outputs", "labels"});
    return names;
  }
  const EncoderDecoder& body() const override { return model_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return proj_out_(hidden, context); }

 private:
  Whisper model_;
  VocabularyHead proj_out_;
};

// A class for a sound, from the mean over its frames of the encoder's states, or of a weighted sum of all layers'.
class WhisperForAudioClassification : public Model {
 public:
  WhisperForAudioClassification(const Config& config, const Scope& scope)
      : c_(config),
        encoder_(scope / "encoder", c_),
        projector_(scope / "projector", c_.d_model, c_.classifier_proj_size, c_.new_weights()),
        classifier_(scope / "classifier", c_.classifier_proj_size, c_.num_labels, c_.new_weights()) {
    const int64_t states = c_.encoder_layers + 1;
    if (c_.use_weighted_layer_sum)
      layer_weights_ = scope.parameter("layer_weights", {states}, Initial::constant(1 / static_cast<double>(states)));
  }

 protected:
  std::vector<std::string> input_names() const override { return {"input_features", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const bool wanted = context.output_hidden_states;
    context.output_hidden_states = wanted || layer_weights_;
    const EncoderOutput output = encoder_(inputs, context);
    const Tensor hidden = layer_weights_ ? weighted_sum(output.hidden_states, layer_weights_->value, context.computing)
                                         : output.last_hidden_state;
    const Tensor logits = classifier_(mean(projector_(hidden, context), {1}), context), labels = inputs.find("labels");
    NamedTensors outputs =
        with_loss(labels.defined() ? mean_cross_entropy(logits, labels, context) : Tensor(), {{"logits", logits}});
    if (wanted) add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  WhisperConfig c_;
  WhisperEncoder encoder_;
  Linear projector_, classifier_;
  std::shared_ptr<Parameter> layer_weights_;
};

FamilyInput spectrum() {
  return {
      .name = "input_features",
      .kind = FamilyInput::Kind::kSpectrum,
      .axes = {{.name = "feature_size", .fields = {"num_mel_bins"}, .otherwise = 80},
               {.name = "encoder_sequence_length", .fields = {"max_source_positions"}, .otherwise = 1500, .times = 2}}};
}

// The mask is for SpecAugment alone: sounds are padded to one length, and the model sees all of it.
FamilyInputs spoken_inputs() {
  FamilyInput mask = spectrum();
  mask.name = "attention_mask", mask.kind = FamilyInput::Kind::kSampleMask;
  mask.axes.erase(mask.axes.begin());
  mask.exported = FamilyInput::Export::kNever, mask.needed = false;
  return {spectrum(), mask, decoder_tokens()};
}

// What the decoder begins with may be the end of the text before.
FamilyHead writing_head() {
  FamilyHead head = sequence_to_sequence_head({"automatic-speech-recognition"}, {"proj_out"}, "proj_out");
  head.begins_as_given = true;
  return head;
}

}  // namespace

static Family whisper_family() {
  return {.model_type = "whisper",
          .base_prefix = "model",
          .architectures = {{"WhisperModel", body_head({}), make_model<WhisperModel>},
                            {"WhisperForConditionalGeneration", writing_head(),
                             make_model<WhisperForConditionalGeneration>},
                            {"WhisperForAudioClassification",
                             {.task = HeadTask::kAudioClassification,
                              .pipelines = {"audio-classification"},
                              .labels = HeadLabels::kClass,
                              .modules = {"projector", "classifier", "layer_weights"},
                              .vocabulary = none,
                              .outputs = {"logits"}},
                             make_model<WhisperForAudioClassification>,
                             FamilyInputs{spectrum()}}},
          .inputs = spoken_inputs(),
          .processors = {.tokenizer = "Whisper",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_target_positions"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "model",
                                          .joint = ".",
                                          .without = {"WhisperForAudioClassification"},
                                          .own_tables = {"embed_positions"}},
                      .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kWhisperFamily{whisper_family};

}  // namespace transom
