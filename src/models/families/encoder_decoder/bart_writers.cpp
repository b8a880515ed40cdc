// SPDX-License-Identifier: Apache-2.0
// Decoders of BART's layers: TrOCR's (Li et al., 2021), whose keys and values of the source may be of another width,
// and mBART's (Liu et al., 2020), with which Donut writes.
#include "base/error.h"
#include "models/families/bart/bart_layers.h"
#include "models/families/encoder_decoder/source_writer.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kTrocrOffset = 2;  // of positions
// Of an encoder there is nothing in the configuration.
constexpr char kTrocr[] = R"({"max_position_embeddings": 512, "encoder_layers": 0, "encoder_attention_heads": 1})";

constexpr BartVariant kMBartWriter{.norm_before = true, .final_norm = true};

BartConfig writer_config(const Config& config, const BartVariant& variant, int64_t source_width) {
  BartConfig c(with_defaults(config, kTrocr), variant);
  if (config.has("cross_attention_hidden_size")) c.source_width = source_width;
  return c;
}

class BartWriter : public SourceWriter {
 public:
  // `head`: the layer over the vocabulary.
  BartWriter(const Config& config, const Scope& scope, int64_t source_width, const BartVariant& variant,
             const std::string& head)
      : c_(writer_config(config, variant, source_width)),
        embed_tokens_(scope / "model" / "decoder" / "embed_tokens", c_.vocab_size, c_.d_model, c_.init_std,
                      c_.pad_token_id),
        embed_positions_(scope / "model" / "decoder" / "embed_positions", c_.max_position_embeddings + kTrocrOffset,
                         c_.d_model, c_.init_std),
        dropout_(c_.dropout),
        head_(scope, head + ".weight", embed_tokens_, c_.tie_word_embeddings, c_.d_model, c_.vocab_size, c_.init_std) {
    refuse_unless(config, "is_decoder", "true");
    if (!config.get_bool("add_cross_attention", true))
      fail(ErrorKind::kUnsupported, "{}: add_cross_attention: expected true", config.where());
    if (config.has("cross_attention_hidden_size") && config.get_int("cross_attention_hidden_size") != source_width)
      fail("{}: cross_attention_hidden_size: expected {}, the encoder's hidden_size, found {}", config.where(),
           source_width, config.get_int("cross_attention_hidden_size"));
    const Scope stack = scope / "model" / "decoder";
    if (config.get_bool("layernorm_embedding", true))
      layernorm_embedding_.emplace(stack / "layernorm_embedding", c_.d_model, 1e-5);
    for (int64_t i = 0; i < c_.decoder_layers; ++i) layers_.emplace_back(stack / "layers" / i, c_, i);
    if (c_.final_norm) layer_norm_.emplace(stack / "layer_norm", c_.d_model, 1e-5);
  }
  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source,
                           ForwardContext& context) const override {
    const Tensor words =
        in.inputs_embeds.defined() ? in.inputs_embeds : embed_tokens_(in.input_ids, context) * c_.embed_scale();
    Tensor x = words + embed_positions_(in.position_ids + static_cast<double>(kTrocrOffset), context);
    if (layernorm_embedding_) x = (*layernorm_embedding_)(x, context);
    return through_decoder(
        layers_, dropout_(x, context), context,
        [&](const Tensor& y, ForwardContext&) { return layer_norm_ ? (*layer_norm_)(y, context) : y; },
        [&](const BartDecoderLayer& layer, const Tensor& y) { return layer(y, in, source, context); });
  }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return head_(hidden, context); }
  int64_t max_positions() const override { return c_.max_position_embeddings; }
  int64_t width() const override { return c_.d_model; }

 private:
  BartConfig c_;
  Embedding embed_tokens_, embed_positions_;
  std::optional<LayerNorm> layernorm_embedding_;
  Dropout dropout_;
  std::vector<BartDecoderLayer> layers_;
  std::optional<LayerNorm> layer_norm_;
  VocabularyHead head_;
};

}  // namespace

std::unique_ptr<SourceWriter> make_trocr_writer(const Config& config, const Scope& scope, int64_t source_width) {
  refuse_unless(config, "use_learned_position_embeddings", "true");
  return std::make_unique<BartWriter>(config, scope, source_width, BartVariant{}, "output_projection");
}

std::unique_ptr<SourceWriter> make_mbart_writer(const Config& config, const Scope& scope, int64_t source_width) {
  return std::make_unique<BartWriter>(config, scope, source_width, kMBartWriter, "lm_head");
}

}  // namespace transom
