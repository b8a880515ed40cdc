// SPDX-License-Identifier: Apache-2.0
// Idefics2 (Laurençon et al., 2024): a tower of SigLIP's layers sees pictures of any form, and learned rows that attend
// to what it saw (a perceiver, Jaegle et al., 2021) stand in the places of a decoder's text. N pictures, P patches of
// one, L learned rows, D hidden.
#include <cmath>

#include "base/error.h"
#include "models/families/idefics3/idefics_tiles.h"
#include "models/loading/config_keys.h"
#include "models/nn/attention/attention.h"
#include "models/nn/layers.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_record.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What Transformers takes where a configuration says nothing of a part.
constexpr char kIdefics2Parts[] = R"({"text_config": {"model_type": "mistral", "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-05, "pad_token_id": 0}, "vision_config": {}, "perceiver_config": {}})";
constexpr int64_t kIdefics2Image = 32001;

// down(act(gate(x)) up(x)), without biases.
class Idefics2Gated {
 public:
  Idefics2Gated(const Scope& scope, int64_t in, int64_t inner, int64_t out, const std::string& activation)
      : activation_(activation),
        gate_proj_(scope / "gate_proj", in, inner, {.bias = false}),
        up_proj_(scope / "up_proj", in, inner, {.bias = false}),
        down_proj_(scope / "down_proj", inner, out, {.bias = false}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return down_proj_(activation(activation_, gate_proj_(x, context)) * up_proj_(x, context), context);
  }

 private:
  std::string activation_;
  Linear gate_proj_, up_proj_, down_proj_;
};

struct PerceiverConfig {
  // A perceiver of another width than the text's is taken as one of which nothing is said, as in Transformers.
  PerceiverConfig(const Config& config, int64_t text_width, double text_epsilon)
      : width(text_width),
        latents(positive(config, "resampler_n_latents", 64, 1 << 20)),
        depth(positive(config, "resampler_depth", 3, 1 << 10)),
        heads(positive(config, "resampler_n_heads", 16, 1 << 16)),
        head_size(positive(config, "resampler_head_dim", 96, 1 << 20)),
        groups(positive(config, "num_key_value_heads", 4, 1 << 16)),
        epsilon(config.get_float("rms_norm_eps", 1e-6)),
        dropout(config.get_float("attention_dropout", 0)),
        activation(config.get_string("hidden_act", "silu")) {
    if (config.get_int("hidden_size", 4096) != width) epsilon = text_epsilon;
    if (heads % groups != 0)
      fail("{}: resampler_n_heads {} is not divisible by num_key_value_heads {}", config.where(), heads, groups);
  }
  int64_t width, latents, depth, heads, head_size, groups;
  double epsilon, dropout;
  std::string activation;
};

class PerceiverLayer {
 public:
  PerceiverLayer(const Scope& scope, const PerceiverConfig& c)
      : c_(c),
        input_latents_norm_(scope / "input_latents_norm", c.width, c.epsilon),
        input_context_norm_(scope / "input_context_norm", c.width, c.epsilon),
        q_proj_(scope / "self_attn" / "q_proj", c.width, c.heads * c.head_size, {.bias = false}),
        k_proj_(scope / "self_attn" / "k_proj", c.width, c.groups * c.head_size, {.bias = false}),
        v_proj_(scope / "self_attn" / "v_proj", c.width, c.groups * c.head_size, {.bias = false}),
        o_proj_(scope / "self_attn" / "o_proj", c.heads * c.head_size, c.width, {.bias = false}),
        post_attention_layernorm_(scope / "post_attention_layernorm", c.width, c.epsilon),
        mlp_(scope / "mlp", c.width, 4 * c.width, c.width, c.activation),
        dropout_(c.dropout) {}

  // [N, L, D], [N, P, D], additive [N, 1, 1, P + L] -> [N, L, D]
  Tensor operator()(const Tensor& latents, const Tensor& seen, const Tensor& mask, ForwardContext& context) const {
    const int64_t N = latents.dim(0), L = latents.dim(1), d = c_.head_size;
    const Tensor own = input_latents_norm_(latents, context);
    const Tensor all = concatenate({input_context_norm_(seen, context), own}, 1);
    const auto split = [&](const Tensor& x, int64_t heads) { return reshape(x, {N, x.dim(1), heads, d}); };
    const Tensor attended =
        attention(split(q_proj_(own, context), c_.heads), split(k_proj_(all, context), c_.groups),
                  split(v_proj_(all, context), c_.groups), mask,
                  {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false}, dropout_, context);
    const Tensor h = latents + o_proj_(reshape(attended, {N, L, c_.heads * d}), context);
    return h + mlp_(post_attention_layernorm_(h, context), context);
  }

 private:
  PerceiverConfig c_;
  RmsNorm input_latents_norm_, input_context_norm_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  RmsNorm post_attention_layernorm_;
  Idefics2Gated mlp_;
  Dropout dropout_;
};

class PerceiverResampler {
 public:
  PerceiverResampler(const Scope& scope, const PerceiverConfig& c)
      : latents_(scope.parameter("latents", {c.latents, c.width}, Initial::ones())),
        norm_(scope / "norm", c.width, c.epsilon) {
    for (int64_t i = 0; i < c.depth; ++i) layers_.emplace_back(scope / "layers" / i, c);
  }
  // [N, P, D], i64 [N, P] -> [N, L, D]
  Tensor operator()(const Tensor& states, const Tensor& seen, ForwardContext& context) const {
    const int64_t N = states.dim(0), L = latents_->value.dim(0), D = states.dim(2);
    const Tensor mask = additive_mask(concatenate({seen, full({N, L}, 1, DType::kInt64)}, 1));
    Tensor latents = broadcast_to(reshape(cast(latents_->value, states.dtype()), {1, L, D}), {N, L, D});
    for (const PerceiverLayer& layer : layers_) latents = layer(latents, states, mask, context);
    return norm_(latents, context);
  }

 private:
  std::shared_ptr<Parameter> latents_;
  std::vector<PerceiverLayer> layers_;
  RmsNorm norm_;
};

class Idefics2Reader : public TileReader {
 public:
  Idefics2Reader(const Config& config, const Config& text, const Scope& scope, int64_t width)
      : vision_(with_defaults(config.get_object("vision_config"), R"({"patch_size": 32})")),
        perceiver_(config.get_object("perceiver_config")),
        tower_(scope / "vision_model", vision_, IdeficsTower::Seen::kAllPixels),
        modality_projection_(scope / "connector" / "modality_projection", tower_.width(),
                             positive(text, "intermediate_size", 14336), width, text.get_string("hidden_act", "silu")),
        perceiver_resampler_(scope / "connector" / "perceiver_resampler",
                             PerceiverConfig(perceiver_, width, text.get_float("rms_norm_eps", 1e-6))) {
    for (const Config* part : {&vision_, &perceiver_}) check_config_keys(*part);
  }

 protected:
  Tensor rows_of(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const override {
    const SeenPatches patches = tower_(pixels, mask, context);
    return perceiver_resampler_(modality_projection_(patches.states, context), patches.seen, context);
  }

 private:
  Config vision_, perceiver_;
  IdeficsTower tower_;
  Idefics2Gated modality_projection_;
  PerceiverResampler perceiver_resampler_;
};

std::unique_ptr<Decoder> make_idefics2(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kIdefics2Parts), of_text = part_config(config, "text_config", "mistral");
  std::unique_ptr<Model> text = make_part(of_text, "feature-extraction", scope / "text_model");
  auto reader = std::make_unique<Idefics2Reader>(config, of_text, scope, body_of(*text).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(text),
                                      {.image_token = config.get_int("image_token_id", kIdefics2Image),
                                       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false)});
}

Family idefics2_family() {
  return picture_text_family(
      {.type = "idefics2",
       .writer = "Idefics2ForConditionalGeneration",
       .bare = "Idefics2Model",
       .make = make_idefics2,
       .prefix = "model",
       .image_processor = "Idefics2",
       .image_tokens = {
           .token = "<image>", .id_fields = {"image_token_id"}, .id = kIdefics2Image, .processor = "Idefics2"}});
}

const RegisterFamilies kIdefics2Family{idefics2_family};

}  // namespace
}  // namespace transom
