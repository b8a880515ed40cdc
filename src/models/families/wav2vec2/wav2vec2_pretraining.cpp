// SPDX-License-Identifier: Apache-2.0
// The pre-training of Wav2Vec 2.0 (Baevski et al., 2020): each masked frame is to be told from others by the code that
// a quantizer gives its features. B batch, T frames, N = B T, G groups of V codes, D their width, K distractors.
#include <cmath>

#include "base/error.h"
#include "models/families/wav2vec2/wav2vec2_encoder.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

// Product quantization (Jegou et al., 2011): one code of each group, chosen by the highest score; in training by a draw
// whose gradient is that of a softmax (Jang et al., "Gumbel-Softmax", 2017).
class GumbelVectorQuantizer {
 public:
  GumbelVectorQuantizer(const Scope& scope, const Config& config, int64_t features)
      : groups_(positive(config, "num_codevector_groups", 2)),
        codes_(positive(config, "num_codevectors_per_group", 320)),
        dim_(positive(config, "codevector_dim", 256)),
        weight_proj_(scope / "weight_proj", features, groups_ * codes_, {.deviation = 1}) {
    if (dim_ % groups_ != 0)
      fail("{}: codevector_dim {} is not divisible by num_codevector_groups {}", config.where(), dim_, groups_);
    codevectors_ = scope.parameter("codevectors", {1, groups_ * codes_, dim_ / groups_}, Initial::normal(0.5));
  }

  struct Codes {
    Tensor vectors;     // [B, T, D]
    Tensor perplexity;  // []: how many codes are in use, as far as they are told apart
  };
  // features [B, T, C]; masked i64 [B, T] or none: the frames whose codes count for the perplexity.
  Codes operator()(const Tensor& features, const Tensor& masked, ForwardContext& context) const {
    constexpr double kTemperature = 2;
    const int64_t B = features.dim(0), T = features.dim(1), N = B * T;
    const Shape all{N, groups_, codes_};
    const Tensor scores = cast(reshape(weight_proj_(features, context), all), DType::kFloat32);
    Tensor chosen, usage;
    if (context.training) {
      const Tensor uniform = random_uniform(next_random_key(context), all);
      const Tensor noise = -log(-log(maximum(uniform, full(all, 1e-30))));
      const Tensor soft = softmax((scores + noise) / kTemperature, context.computing);
      chosen = one_hot(soft) - soft.detach() + soft;
      usage = softmax(scores, context.computing);
    } else {
      chosen = usage = one_hot(scores);
    }
    const Tensor codevectors = reshape(codevectors_->value, {groups_, codes_, dim_ / groups_});
    const Tensor picked = dot_general(cast(chosen, codevectors.dtype()), codevectors, {{1}, {0}, {2}, {1}},
                                      context.computing);  // [G, N, D / G]
    return {reshape(permute(picked, {1, 0, 2}), {B, T, dim_}), perplexity(usage, masked)};
  }
  double codes() const { return static_cast<double>(groups_ * codes_); }
  int64_t dim() const { return dim_; }

 private:
  static Tensor one_hot(const Tensor& scores) {
    const Tensor best = broadcast_to(unsqueeze(arg_max(scores, 2), 2), scores.shape());
    return cast(equal(iota(scores.shape(), 2), best), DType::kFloat32);
  }
  static Tensor perplexity(const Tensor& usage, const Tensor& masked) {  // [N, G, V] -> []
    Tensor share;
    if (masked.defined()) {
      const Tensor weights = cast(reshape(masked, {-1, 1, 1}), DType::kFloat32);
      share = reduce_sum(usage * weights, {0}) / sum(weights);
    } else {
      share = mean(usage, {0});
    }
    return sum(exp(-reduce_sum(share * log(maximum(share, full(share.shape(), 1e-37))), {1})));
  }

  int64_t groups_, codes_, dim_;
  Linear weight_proj_;
  std::shared_ptr<Parameter> codevectors_;
};

// torch.cosine_similarity over the last axis.
Tensor cosine(const Tensor& x, const Tensor& y) {
  const auto length = [](const Tensor& v) {
    const Tensor squares = reduce_sum(v * v, {-1});
    return sqrt(maximum(squares, full(squares.shape(), 1e-16)));
  };
  return reduce_sum(x * y, {-1}) / (length(x) * length(y));
}

class Wav2Vec2ForPreTraining : public Model {
 public:
  Wav2Vec2ForPreTraining(const Config& config, const Scope& scope)
      : c_(config, Wav2Vec2Kind::kWav2Vec2),
        temperature_(config.get_float("contrastive_logits_temperature", 0.1)),
        diversity_weight_(config.get_float("diversity_loss_weight", 0.1)),
        body_(scope / "wav2vec2", c_),
        dropout_features_(config.get_float("feat_quantizer_dropout", 0)),
        quantizer_(scope / "quantizer", config, c_.conv_dim.back()),
        project_hid_(projection(scope / "project_hid", c_.hidden_size, config)),
        project_q_(projection(scope / "project_q", quantizer_.dim(), config)) {
    if (c_.add_adapter) fail("config.json: add_adapter = true is not carried out for this head; only false is");
    if (!(temperature_ > 0))
      fail("config.json: contrastive_logits_temperature: expected a number above 0, found {}", temperature_);
  }

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_values", "attention_mask", "mask_time_indices", "sampled_negative_indices"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Wav2Vec2Output output = body_(inputs, context);
    const Tensor predicted = project_hid_(output.last_hidden_state, context);
    Tensor masked = inputs.find("mask_time_indices");
    if (masked.defined()) masked = cast(masked, DType::kInt64);
    const GumbelVectorQuantizer::Codes codes =
        quantizer_(dropout_features_(output.extract_features, context), masked, context);
    const Tensor targets = project_q_(codes.vectors, context);

    NamedTensors outputs;
    const Tensor distractors = inputs.find("sampled_negative_indices");
    Tensor contrastive, diversity;
    if (distractors.defined()) {
      if (!masked.defined()) fail("sampled_negative_indices are given without mask_time_indices");
      contrastive = contrastive_loss(predicted, targets, distractors, masked, context);
      diversity = (quantizer_.codes() - codes.perplexity) / quantizer_.codes() * cast(sum(masked), DType::kFloat32);
      outputs.set("loss", sum_of(contrastive + diversity * diversity_weight_, context));
    }
    outputs.set("projected_states", predicted);
    outputs.set("projected_quantized_states", targets);
    outputs.set("codevector_perplexity", codes.perplexity);
    add_hidden_states(outputs, output.hidden_states);
    if (distractors.defined()) {
      outputs.set("contrastive_loss", contrastive);
      outputs.set("diversity_loss", diversity);
    }
    return outputs;
  }

 private:
  static Linear projection(const Scope& scope, int64_t in, const Config& config) {
    return {scope,
            in,
            positive(config, "proj_codevector_dim", 256),
            {.deviation = 1 / std::sqrt(3 * static_cast<double>(in))}};
  }

  // Which of 1 + K codes is the frame's own? distractors i64 [B, T, K]: frames of the batch, counted through.
  Tensor contrastive_loss(const Tensor& predicted, const Tensor& targets, const Tensor& distractors,
                          const Tensor& masked, ForwardContext& context) const {
    const int64_t B = targets.dim(0), T = targets.dim(1), P = targets.dim(2);
    if (masked.shape() != Shape{B, T})
      fail("mask_time_indices: expected {}, found {}", to_string(Shape{B, T}), to_string(masked.shape()));
    if (distractors.rank() != 3 || distractors.dim(0) != B || distractors.dim(1) != T || distractors.dim(2) < 1)
      fail("sampled_negative_indices: expected [{}, {}, distractors], found {}", B, T, to_string(distractors.shape()));
    const int64_t K = distractors.dim(2);
    const Shape all{B, T, K, P};
    const Tensor own = cast(targets, DType::kFloat32);
    const Tensor others =
        reshape(gather(reshape(own, {B * T, P}), reshape(cast(distractors, DType::kInt64), {-1}), 0), all);
    const Tensor said = broadcast_to(unsqueeze(cast(predicted, DType::kFloat32), 2), all);
    // A distractor of the same code as the frame's own is none.
    const Tensor same = reduce_min(cast(equal(others, broadcast_to(unsqueeze(own, 2), all)), DType::kInt64), {3});
    const Tensor wrong = cosine(said, others) / temperature_;
    const Tensor right = cosine(cast(predicted, DType::kFloat32), own) / temperature_;
    const Tensor logits = concatenate({unsqueeze(right, 2), select(equal(same, full(same.shape(), 1, DType::kInt64)),
                                                                   full(wrong.shape(), -1e30), wrong)},
                                      2);
    const Tensor labels = (masked - 1.0) * 100.0;  // 0, or -100 where the frame was seen
    return sum(cross_entropy(reshape(logits, {B * T, K + 1}), reshape(labels, {-1}), -100, context.computing));
  }

  Wav2Vec2Config c_;
  double temperature_, diversity_weight_;
  Wav2Vec2Encoder body_;
  Dropout dropout_features_;
  GumbelVectorQuantizer quantizer_;
  Linear project_hid_, project_q_;
};

}  // namespace

Architecture wav2vec2_for_pretraining() {
  return {"Wav2Vec2ForPreTraining",
          {.task = HeadTask::kMaskedAudio,
           .pipelines = none,
           .labels = HeadLabels::kMaskedFrames,
           .modules = {"quantizer", "project_hid", "project_q"},
           .vocabulary = none,
           .outputs = {"projected_states", "projected_quantized_states", "codevector_perplexity"}},
          make_model<Wav2Vec2ForPreTraining>};
}

}  // namespace transom
