// SPDX-License-Identifier: Apache-2.0
// GPT-2 with a layer in each block that reads an encoder's states.
#include "models/families/encoder_decoder/source_writer.h"
#include "models/families/gpt2/gpt2_layers.h"

namespace transom {
namespace {

class Gpt2SourceAttention {
 public:
  Gpt2SourceAttention(const Scope& scope, const Gpt2Config& c, int64_t layer)
      : layer_(layer),
        heads_(c.n_head),
        scale_(c.attention_scale(layer)),
        c_attn_(scope / "c_attn", c.n_embd, 2 * c.n_embd, c.initializer_range),
        q_attn_(scope / "q_attn", c.n_embd, c.n_embd, c.initializer_range),
        c_proj_(scope / "c_proj", c.n_embd, c.n_embd, c.residual_deviation()),
        attn_dropout_(c.attn_pdrop),
        resid_dropout_(c.resid_pdrop) {}

  Tensor operator()(const Tensor& x, const EncodedSource& source, ForwardContext& context) const {
    const auto heads = [&](const Tensor& y) { return reshape(y, {y.dim(0), y.dim(1), heads_, y.dim(2) / heads_}); };
    const KeysAndValues seen = source_keys(layer_, source, context, [&](const Tensor& states) {
      const Tensor both = c_attn_(states, context);
      const int64_t D = both.dim(2) / 2;
      return KeysAndValues{heads(slice(both, 2, 0, D)), heads(slice(both, 2, D, 2 * D))};
    });
    const Tensor mixed =
        attention_to_source(heads(q_attn_(x, context)), seen, source.mask, scale_, attn_dropout_, context);
    return resid_dropout_(c_proj_(mixed, context), context);
  }

 private:
  int64_t layer_, heads_;
  double scale_;
  Gpt2Conv1D c_attn_, q_attn_, c_proj_;
  Dropout attn_dropout_, resid_dropout_;
};

class Gpt2WriterBlock {
 public:
  Gpt2WriterBlock(const Scope& scope, const Gpt2Config& c, int64_t layer)
      : path_(scope.path()),
        ln_1_(scope / "ln_1", c.n_embd, c.layer_norm_epsilon),
        attn_(scope / "attn", c, layer),
        ln_2_(scope / "ln_2", c.n_embd, c.layer_norm_epsilon),
        crossattention_(scope / "crossattention", c, layer),
        ln_cross_attn_(scope / "ln_cross_attn", c.n_embd, c.layer_norm_epsilon),
        mlp_(scope / "mlp", c) {}
  Tensor operator()(const Tensor& x, const DecoderInputs& in, const EncodedSource& source,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    Tensor h = attn_(ln_1_(x, context), in, context) + x;
    h = crossattention_(ln_cross_attn_(h, context), source, context) + h;
    return mlp_(ln_2_(h, context), context) + h;
  }

 private:
  std::string path_;
  LayerNorm ln_1_;
  Gpt2Attention attn_;
  LayerNorm ln_2_;
  Gpt2SourceAttention crossattention_;
  LayerNorm ln_cross_attn_;
  Gpt2Mlp mlp_;
};

class Gpt2Writer : public SourceWriter {
 public:
  Gpt2Writer(const Config& config, const Scope& scope)
      : c_(config),
        wte_(scope / "transformer" / "wte", c_.vocab_size, c_.n_embd, c_.initializer_range),
        wpe_(scope / "transformer" / "wpe", c_.n_positions, c_.n_embd, c_.initializer_range),
        drop_(c_.embd_pdrop),
        ln_f_(scope / "transformer" / "ln_f", c_.n_embd, c_.layer_norm_epsilon),
        lm_head_(scope, "lm_head.weight", wte_, c_.tie_word_embeddings, c_.n_embd, c_.vocab_size,
                 c_.initializer_range) {
    refuse_unless(config, "add_cross_attention", "true");
    for (int64_t i = 0; i < c_.n_layer; ++i) h_.emplace_back(scope / "transformer" / "h" / i, c_, i);
  }
  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source,
                           ForwardContext& context) const override {
    const Tensor x =
        (in.input_ids.defined() ? wte_(in.input_ids, context) : in.inputs_embeds) + wpe_(in.position_ids, context);
    return through_decoder(h_, drop_(x, context), context, ln_f_, [&](const Gpt2WriterBlock& block, const Tensor& y) {
      return block(y, in, source, context);
    });
  }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return lm_head_(hidden, context); }
  int64_t max_positions() const override { return c_.n_positions; }
  int64_t width() const override { return c_.n_embd; }

 private:
  Gpt2Config c_;
  Embedding wte_, wpe_;
  Dropout drop_;
  std::vector<Gpt2WriterBlock> h_;
  LayerNorm ln_f_;
  VocabularyHead lm_head_;
};

}  // namespace

std::unique_ptr<SourceWriter> make_gpt2_writer(const Config& config, const Scope& scope, int64_t /*source_width*/) {
  return std::make_unique<Gpt2Writer>(config, scope);
}

}  // namespace transom
