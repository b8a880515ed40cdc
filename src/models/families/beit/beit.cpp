// SPDX-License-Identifier: Apache-2.0
// BEiT (Bao et al., 2021) with its heads. B batch, P patches, T = 1 + P tokens, D hidden.
#include "models/families/beit/beit_body.h"

#include <limits>

#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

// The mean of the patches, normed, or the class token: [B, T, D] -> [B, D].
class BeitPooler {
 public:
  BeitPooler(const Scope& scope, const BeitConfig& c) {
    if (c.use_mean_pooling) layernorm_.emplace(scope / "layernorm", c.hidden_size, c.layer_norm_eps);
  }
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    if (!layernorm_) return squeeze(slice(hidden, 1, 0, 1), 1);
    return (*layernorm_)(mean(slice(hidden, 1, 1, hidden.dim(1)), {1}), context);
  }

 private:
  std::optional<LayerNorm> layernorm_;
};

class BeitModel : public Model {
 public:
  BeitModel(const Config& config, const Scope& scope)
      : config_(config), beit_(scope, config_), pooler_(scope / "pooler", config_) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = beit_(inputs, context);
    const Tensor& hidden = encoded.last_hidden_state;
    NamedTensors outputs{{"last_hidden_state", hidden}, {"pooler_output", pooler_(hidden, context)}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  BeitConfig config_;
  BeitBody beit_;
  BeitPooler pooler_;
};

class BeitForImageClassification : public Model {
 public:
  BeitForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        beit_(scope / "beit", config_),
        pooler_(scope / "beit" / "pooler", config_),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = beit_(inputs, context);
    const Tensor logits = classifier_(pooler_(encoded.last_hidden_state, context), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, config_.problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  BeitConfig config_;
  BeitBody beit_;
  BeitPooler pooler_;
  Linear classifier_;
};

// Labels [M] of the M masked patches, in their order, laid out over all patches of bool_masked_pos: [B P], -100 where
// nothing is masked.
Tensor labels_of_patches(const Tensor& labels, const Tensor& masked) {
  const Tensor flat = reshape(cast(masked, DType::kInt64), {masked.size()});
  const Tensor zero = full({}, 0, DType::kInt64),
               last = full({}, static_cast<double>(labels.size() - 1), DType::kInt64);
  const Tensor order = minimum(maximum(cumulative_sum(flat, 0) - full({}, 1, DType::kInt64), zero), last);
  return select(equal(flat, zero), full(flat.shape(), -100, DType::kInt64), gather(labels, order, 0));
}

// Says of masked patches which of the codes of a picture they have.
class BeitForMaskedImageModeling : public Model {
 public:
  BeitForMaskedImageModeling(const Config& config, const Scope& scope)
      : config_(config),
        beit_(scope / "beit", config_),
        layernorm_(scope / "layernorm", config_.hidden_size, config_.layer_norm_eps),
        lm_head_(scope / "lm_head", config_.hidden_size, config_.vocab_size, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = beit_(inputs, context);
    const Tensor hidden = layernorm_(encoded.last_hidden_state, context);
    const Tensor logits = lm_head_(slice(hidden, 1, 1, hidden.dim(1)), context);
    const Tensor labels = inputs.find("labels");
    NamedTensors outputs =
        with_loss(labels.defined() ? loss(logits, labels, inputs, context) : Tensor(), {{"logits", logits}});
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  Tensor loss(const Tensor& logits, const Tensor& labels, const NamedTensors& inputs,
              const ForwardContext& context) const {
    const Tensor masked = inputs.find("bool_masked_pos");
    if (!masked.defined()) fail("labels: expected bool_masked_pos beside them, which says of which patches they are");
    if (labels.rank() != 1 || labels.size() < 1)
      fail("labels: expected one number for each masked patch, [masked], found {}", to_string(labels.shape()));
    const int64_t V = logits.dim(2);
    const Tensor each =
        mean_cross_entropy(reshape(logits, {logits.size() / V, V}), labels_of_patches(labels, masked), context);
    // How many are masked is known on the device alone; where there are not as many labels the loss is no number.
    const Tensor count = reduce_sum(cast(masked, DType::kInt64), {0, 1});
    const Tensor fits = equal(count, full({}, static_cast<double>(labels.size()), DType::kInt64));
    return select(fits, each, full({}, std::numeric_limits<double>::quiet_NaN(), each.dtype()));
  }

  BeitConfig config_;
  BeitBody beit_;
  LayerNorm layernorm_;
  Linear lm_head_;
};

}  // namespace

static Family beit_family() {
  return {
      .model_type = "beit",
      .base_prefix = "beit",
      .architectures = {{"BeitModel",
                         body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<BeitModel>},
                        {"BeitForImageClassification", image_classification_head({"beit.pooler", "classifier"}),
                         make_model<BeitForImageClassification>},
                        {"BeitForMaskedImageModeling",
                         {.task = HeadTask::kMaskedLM,
                          .pipelines = none,
                          .labels = HeadLabels::kNone,
                          .modules = {"layernorm", "lm_head"},
                          .vocabulary = none,
                          .outputs = {"logits"}},
                         make_model<BeitForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "Beit", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kBeitFamily{beit_family};

}  // namespace transom
