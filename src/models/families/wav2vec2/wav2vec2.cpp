// SPDX-License-Identifier: Apache-2.0
// Wav2Vec 2.0 (Baevski et al., 2020), HuBERT (Hsu et al., 2021) and WavLM (Chen et al., 2022) with their heads. The
// body is in wav2vec2_encoder.h.
// B batch, T frames, D hidden, V vocabulary.
#include "base/error.h"
#include "models/families/wav2vec2/wav2vec2_encoder.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

// `kind` chooses the family: names and a few options differ.
template <Wav2Vec2Kind kind>
class Wav2Vec2WithHead : public Model {
 public:
  static constexpr const char* kPrefix = kind == Wav2Vec2Kind::kHubert  ? "hubert"
                                         : kind == Wav2Vec2Kind::kWavLM ? "wavlm"
                                                                        : "wav2vec2";

 protected:
  Wav2Vec2WithHead(const Config& config, const Scope& scope, const std::string& prefix = kPrefix)
      : c_(config, kind), body_(prefix.empty() ? scope : scope / prefix, c_) {}
  std::vector<std::string> input_names() const override { return {"input_values", "attention_mask", "labels"}; }

  void without_adapter() const {
    if (c_.add_adapter) fail("config.json: add_adapter = true is not carried out for this head; only false is");
  }
  std::shared_ptr<Parameter> layer_weights(const Scope& scope) const {
    if (!c_.use_weighted_layer_sum) return nullptr;
    const int64_t states = c_.num_hidden_layers + 1;
    return scope.parameter("layer_weights", {states}, Initial::constant(1 / static_cast<double>(states)));
  }
  // The outputs of `head` on the last hidden states, or on the weighted sum of all.
  template <typename Head>
  NamedTensors with_head(const NamedTensors& inputs, ForwardContext& context, const std::shared_ptr<Parameter>& weights,
                         Head&& head) const {
    const bool wanted = context.output_hidden_states;
    context.output_hidden_states = wanted || weights;
    const Wav2Vec2Output output = body_(inputs, context);
    NamedTensors outputs = head(weights ? weighted_sum(output.hidden_states, weights->value, context.computing)
                                        : output.last_hidden_state);
    if (wanted) add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

  Wav2Vec2Config c_;
  Wav2Vec2Encoder body_;
};

template <Wav2Vec2Kind kind>
class Wav2Vec2Model : public Wav2Vec2WithHead<kind> {
 public:
  Wav2Vec2Model(const Config& config, const Scope& scope) : Wav2Vec2WithHead<kind>(config, scope, "") {}

 protected:
  std::vector<std::string> input_names() const override { return {"input_values", "attention_mask"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Wav2Vec2Output output = this->body_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", output.last_hidden_state}};
    if (kind != Wav2Vec2Kind::kHubert) outputs.set("extract_features", output.extract_features);
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }
};

// A character, or a blank, for each frame.
template <Wav2Vec2Kind kind>
class Wav2Vec2ForCTC : public Wav2Vec2WithHead<kind> {
 public:
  Wav2Vec2ForCTC(const Config& config, const Scope& scope)
      : Wav2Vec2WithHead<kind>(config, scope),
        dropout_(this->c_.final_dropout),
        lm_head_(scope / "lm_head", this->c_.output_hidden_size, this->c_.vocab_size, this->c_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, nullptr, [&](const Tensor& hidden) {
      const Tensor logits = lm_head_(dropout_(hidden, context), context), labels = inputs.find("labels");
      if (!labels.defined()) return NamedTensors{{"logits", logits}};
      const Tensor mask = inputs.find("attention_mask"), &wave = inputs.at("input_values");
      const Tensor samples = mask.defined() ? reduce_sum(cast(mask, DType::kInt64), {1})
                                            : full({wave.dim(0)}, static_cast<double>(wave.dim(1)), DType::kInt64);
      return with_loss(ctc_loss_of_logits(logits, labels, this->body_.frames_of(samples, true), this->c_.ctc, context),
                       {{"logits", logits}});
    });
  }

 private:
  Dropout dropout_;
  Linear lm_head_;
};

// A class for the whole sound.
template <Wav2Vec2Kind kind>
class Wav2Vec2ForSequenceClassification : public Wav2Vec2WithHead<kind> {
 public:
  Wav2Vec2ForSequenceClassification(const Config& config, const Scope& scope)
      : Wav2Vec2WithHead<kind>(config, scope),
        layer_weights_(this->layer_weights(scope)),
        projector_(scope / "projector", this->c_.hidden_size, this->c_.classifier_proj_size, this->c_.new_weights()),
        classifier_(scope / "classifier", this->c_.classifier_proj_size, this->c_.num_labels, this->c_.new_weights()) {
    this->without_adapter();
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, layer_weights_, [&](const Tensor& hidden) {
      const Tensor logits = classifier_(pooled(projector_(hidden, context), inputs.find("attention_mask")), context);
      const Tensor labels = inputs.find("labels");
      return with_loss(labels.defined() ? mean_cross_entropy(logits, labels, context) : Tensor(), {{"logits", logits}});
    });
  }

 private:
  // The mean over the frames that count.
  Tensor pooled(const Tensor& x, const Tensor& attention_mask) const {
    if (!attention_mask.defined()) return mean(x, {1});
    const Tensor weights = unsqueeze(cast(this->body_.frame_mask(attention_mask, x.dim(1)), x.dtype()), 2);
    return reduce_sum(x * weights, {1}) / reduce_sum(weights, {1});
  }

  std::shared_ptr<Parameter> layer_weights_;
  Linear projector_, classifier_;
};

// Classes for each frame; labels are marks for each class, of which the highest counts.
template <Wav2Vec2Kind kind>
class Wav2Vec2ForAudioFrameClassification : public Wav2Vec2WithHead<kind> {
  using Base = Wav2Vec2WithHead<kind>;
  using Base::c_, Base::layer_weights, Base::with_head, Base::without_adapter;

 public:
  Wav2Vec2ForAudioFrameClassification(const Config& config, const Scope& scope)
      : Base(config, scope),
        layer_weights_(layer_weights(scope)),
        classifier_(scope / "classifier", c_.hidden_size, c_.num_labels, c_.new_weights()) {
    without_adapter();
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, layer_weights_, [&](const Tensor& hidden) {
      const Tensor logits = classifier_(hidden, context), labels = inputs.find("labels");
      return with_loss(labels.defined() ? mean_cross_entropy(logits, arg_max(labels, -1), context) : Tensor(),
                       {{"logits", logits}});
    });
  }

 private:
  std::shared_ptr<Parameter> layer_weights_;
  Linear classifier_;
};

// Who speaks (Snyder et al., "X-vectors", 2018): dilated layers over the frames, their mean and deviation over time,
// and a loss with a margin between speakers (Wang et al., "Additive Margin Softmax", 2018).
template <Wav2Vec2Kind kind>
class Wav2Vec2ForXVector : public Wav2Vec2WithHead<kind> {
  using Base = Wav2Vec2WithHead<kind>;
  using Base::body_, Base::c_, Base::layer_weights, Base::with_head, Base::without_adapter;

 public:
  Wav2Vec2ForXVector(const Config& config, const Scope& scope)
      : Base(config, scope),
        dims_(config.get_ints("tdnn_dim", {512, 512, 512, 512, 1500})),
        kernels_(config.get_ints("tdnn_kernel", {5, 3, 3, 1, 1})),
        dilations_(config.get_ints("tdnn_dilation", {1, 2, 3, 1, 1})),
        layer_weights_(layer_weights(scope)) {
    without_adapter();
    if (dims_.empty() || kernels_.size() != dims_.size() || dilations_.size() != dims_.size())
      fail("config.json: tdnn_dim, tdnn_kernel and tdnn_dilation: expected as many of each, found {}, {} and {}",
           dims_.size(), kernels_.size(), dilations_.size());
    const int64_t embedding = config.get_int("xvector_output_dim", 512);
    projector_.emplace(scope / "projector", c_.hidden_size, dims_[0], c_.new_weights());
    int64_t in = dims_[0];
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (kernels_[i] < 1 || dilations_[i] < 1 || kernels_[i] > 4096 || dilations_[i] > 4096)
        fail("config.json: tdnn_kernel and tdnn_dilation: expected numbers from 1 to 4096, found {} and {}",
             kernels_[i], dilations_[i]);
      tdnn_.emplace_back(scope / "tdnn" / static_cast<int64_t>(i) / "kernel", in * kernels_[i], dims_[i],
                         c_.new_weights());
      in = dims_[i];
    }
    feature_extractor_.emplace(scope / "feature_extractor", 2 * in, embedding, c_.new_weights());
    classifier_.emplace(scope / "classifier", embedding, embedding, c_.new_weights());
    speakers_ = (scope / "objective").parameter("weight", {embedding, c_.num_labels}, Initial::normal(1));
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, layer_weights_, [&](const Tensor& hidden) {
      Tensor x = (*projector_)(hidden, context);
      for (size_t i = 0; i < tdnn_.size(); ++i)
        x = relu(tdnn_[i](side_by_side(x, kernels_[i], dilations_[i]), context));
      const Tensor embeddings = (*feature_extractor_)(statistics(x, inputs.find("attention_mask")), context);
      const Tensor logits = (*classifier_)(embeddings, context), labels = inputs.find("labels");
      return with_loss(labels.defined() ? margin_loss(logits, labels, context) : Tensor(),
                       {{"logits", logits}, {"embeddings", embeddings}});
    });
  }

 private:
  // What a window of `size` frames, `step` apart, sees: [B, T, D] -> [B, T - (size - 1) step, size D].
  static Tensor side_by_side(const Tensor& x, int64_t size, int64_t step) {
    const int64_t places = x.dim(1) - (size - 1) * step;
    if (places < 1)
      fail("input_values: the sound is too short: {} frames, and tdnn_kernel and tdnn_dilation look at {}", x.dim(1),
           (size - 1) * step + 1);
    std::vector<Tensor> seen;
    for (int64_t i = 0; i < size; ++i) seen.push_back(slice(x, 1, i * step, i * step + places));
    return concatenate(seen, 2);
  }
  // Mean and deviation over the frames that count: [B, T, D] -> [B, 2 D]. As in Transformers, their number forgets that
  // the layers are dilated.
  Tensor statistics(const Tensor& frames_of_x, const Tensor& attention_mask) const {
    const Tensor x = cast(frames_of_x, DType::kFloat32);
    const int64_t B = x.dim(0), T = x.dim(1);
    Tensor counts = full({B}, static_cast<double>(T), DType::kInt64);
    if (attention_mask.defined()) {
      Tensor frames = body_.frames_of(reduce_sum(cast(attention_mask, DType::kInt64), {1}), false);
      for (const int64_t kernel : kernels_) frames = frames - static_cast<double>(kernel - 1);
      counts = minimum(frames, counts);
    }
    const Tensor counted = less(iota({B, T}, 1), broadcast_to(reshape(counts, {B, 1}), {B, T}));
    const Tensor weights = unsqueeze(cast(counted, x.dtype()), 2), n = reshape(cast(counts, x.dtype()), {B, 1});
    const Tensor average = reduce_sum(x * weights, {1}) / n;
    const Tensor distance = (x - unsqueeze(average, 1)) * weights;
    // Of a feature that is always the same the root has no slope, and gives no gradient.
    const Tensor variance = maximum(reduce_sum(distance * distance, {1}) / (n - 1.0), constant(1e-30));
    return cast(concatenate({average, sqrt(variance)}, 1), frames_of_x.dtype());
  }
  Tensor margin_loss(const Tensor& logits, const Tensor& labels, const ForwardContext& context) const {
    constexpr double kScale = 30, kMargin = 0.4;
    const auto unit = [](const Tensor& x, int64_t axis) {
      return x / maximum(sqrt(reduce_sum(x * x, {axis}, true)), constant(1e-12));
    };
    const Tensor cosines = dot_general(unit(cast(logits, DType::kFloat32), 1), unit(speakers_->value, 0),
                                       {{}, {}, {1}, {0}}, context.computing);
    const Tensor own = equal(iota(cosines.shape(), 1), broadcast_to(reshape(labels, {-1, 1}), cosines.shape()));
    return mean_cross_entropy((cosines - cast(own, DType::kFloat32) * kMargin) * kScale, reshape(labels, {-1}),
                              context);
  }

  std::vector<int64_t> dims_, kernels_, dilations_;
  std::shared_ptr<Parameter> layer_weights_, speakers_;
  std::optional<Linear> projector_, feature_extractor_, classifier_;
  std::vector<Linear> tdnn_;
};

template <Wav2Vec2Kind kind>
Family family_named(const std::string& name) {
  constexpr bool kHubert = kind == Wav2Vec2Kind::kHubert;
  const std::string type = Wav2Vec2WithHead<kind>::kPrefix;
  return {.model_type = type,
          .base_prefix = type,
          .architectures = {{name + "Model",
                             body_head({}, kHubert ? std::vector<std::string>{"last_hidden_state"}
                                                   : std::vector<std::string>{"last_hidden_state", "extract_features"}),
                             make_model<Wav2Vec2Model<kind>>},
                            {name + "ForCTC",
                             {.task = HeadTask::kCtc,
                              .pipelines = {"automatic-speech-recognition"},
                              .labels = HeadLabels::kCharacters,
                              .modules = {"lm_head"},
                              .vocabulary = {"lm_head"},
                              .outputs = {"logits"}},
                             make_model<Wav2Vec2ForCTC<kind>>},
                            {name + "ForSequenceClassification",
                             {.task = HeadTask::kAudioClassification,
                              .pipelines = {"audio-classification"},
                              .labels = HeadLabels::kClass,
                              .modules = {"projector", "classifier", "layer_weights"},
                              .vocabulary = none,
                              .outputs = {"logits"}},
                             make_model<Wav2Vec2ForSequenceClassification<kind>>}},
          .inputs = sound_inputs(),
          .processors = {.tokenizer = "Wav2Vec2CTC",
                         .image_processor = none,
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

// Classes of each frame, and of who speaks.
template <Wav2Vec2Kind kind>
void add_speakers(Family& family, const std::string& name) {
  family.architectures.push_back({name + "ForAudioFrameClassification",
                                  {.task = HeadTask::kFrameClassification,
                                   .pipelines = none,
                                   .labels = HeadLabels::kFrameClasses,
                                   .modules = {"classifier", "layer_weights"},
                                   .vocabulary = none,
                                   .outputs = {"logits"}},
                                  make_model<Wav2Vec2ForAudioFrameClassification<kind>>});
  family.architectures.push_back(
      {name + "ForXVector",
       {.task = HeadTask::kSpeaker,
        .pipelines = none,
        .labels = HeadLabels::kClass,
        .modules = {"projector", "tdnn", "feature_extractor", "classifier", "objective", "layer_weights"},
        .vocabulary = none,
        .outputs = {"logits", "embeddings"}},
       make_model<Wav2Vec2ForXVector<kind>>});
}

}  // namespace

static Family wav2vec2_family() {
  Family family = family_named<Wav2Vec2Kind::kWav2Vec2>("Wav2Vec2");
  add_speakers<Wav2Vec2Kind::kWav2Vec2>(family, "Wav2Vec2");
  family.architectures.push_back(wav2vec2_for_pretraining());
  family.foreign.keras = KerasNames{
      .body = "wav2vec2", .joint = ".", .without = {"ForAudioFrameClassification", "ForPreTraining", "ForXVector"}};
  family.foreign.flax =
      FlaxNames{.without = {"ForSequenceClassification", "ForAudioFrameClassification", "ForXVector"}};
  return family;
}
static Family hubert_family() {
  Family family = family_named<Wav2Vec2Kind::kHubert>("Hubert");
  family.foreign.keras = KerasNames{.body = "hubert", .joint = ".", .without = {"HubertForSequenceClassification"}};
  return family;
}
static Family wavlm_family() {
  Family family = family_named<Wav2Vec2Kind::kWavLM>("WavLM");
  add_speakers<Wav2Vec2Kind::kWavLM>(family, "WavLM");
  return family;
}

const RegisterFamilies kWav2vec2Families{wav2vec2_family, hubert_family, wavlm_family};

}  // namespace transom
