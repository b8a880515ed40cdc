// SPDX-License-Identifier: Apache-2.0
// BERT and RoBERTa as writers: in each layer, behind the attention to the text so far, one to the encoder's states.
#include <cmath>

#include "base/error.h"
#include "models/families/bert/bert_predictions.h"
#include "models/families/encoder_decoder/source_writer.h"
#include "models/families/roberta/roberta_heads.h"

namespace transom {
namespace {

class BertSourceAttention {
 public:
  // `scope` is that of a layer.
  BertSourceAttention(const Scope& scope, const BertConfig& c, int64_t layer)
      : layer_(layer),
        heads_(c.num_attention_heads),
        query_(scope / "crossattention" / "self" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
        key_(scope / "crossattention" / "self" / "key", c.hidden_size, c.hidden_size, c.new_weights()),
        value_(scope / "crossattention" / "self" / "value", c.hidden_size, c.hidden_size, c.new_weights()),
        output_(scope / "crossattention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        norm_(scope / "crossattention" / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const EncodedSource& source, ForwardContext& context) const {
    const auto heads = [&](const Tensor& y) { return reshape(y, {y.dim(0), y.dim(1), heads_, y.dim(2) / heads_}); };
    const KeysAndValues seen = source_keys(layer_, source, context, [&](const Tensor& states) {
      return KeysAndValues{heads(key_(states, context)), heads(value_(states, context))};
    });
    const double scale = 1 / std::sqrt(static_cast<double>(x.dim(2) / heads_));
    const Tensor mixed =
        attention_to_source(heads(query_(x, context)), seen, source.mask, scale, attention_dropout_, context);
    return norm_(dropout_(output_(mixed, context), context) + x, context);
  }

 private:
  int64_t layer_, heads_;
  Linear query_, key_, value_, output_;
  LayerNorm norm_;
  Dropout attention_dropout_, dropout_;
};

class BertWriterLayer {
 public:
  BertWriterLayer(const Scope& scope, const BertConfig& c, int64_t layer)
      : path_(scope.path()), attention_(scope, c, layer), crossattention_(scope, c, layer), feed_forward_(scope, c) {}
  Tensor operator()(const Tensor& x, const Tensor& mask, const EncodedSource& source, ForwardContext& context) const {
    const ModuleScope module(path_);
    return feed_forward_(crossattention_(attention_(x, mask, context), source, context), context);
  }

 private:
  std::string path_;
  BertSelfAttention attention_;
  BertSourceAttention crossattention_;
  BertFeedForward feed_forward_;
};

// `Head`: the layer over the vocabulary. `scope` is that of the decoder, in which `body` is the embeddings' and
// layers'.
template <typename Head>
class BertWriter : public SourceWriter {
 public:
  BertWriter(const Config& config, const Scope& scope, const char* body, bool positions_after_padding)
      : c_(config, /*reads_source=*/true),
        embeddings_(scope / body / "embeddings", c_, positions_after_padding),
        layers_(layers_of(scope / body / "encoder" / "layer", c_)),
        head_(scope, c_, embeddings_.word_embeddings) {
    if (positions_after_padding) {
      if (!c_.pad_token_id)
        fail("{}: pad_token_id: expected a number, behind which positions begin, found null", config.where());
      padding_ = *c_.pad_token_id;
    }
  }

  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source,
                           ForwardContext& context) const override {
    if (!in.causal) fail("decoder_attention_mask: expected [batch, length], as each token sees those before it alone");
    const Tensor x = embeddings_(in.input_ids, in.inputs_embeds, {}, places(in, context), context);
    return through_decoder(
        layers_, x, context, [](const Tensor& y, ForwardContext&) { return y; },
        [&](const BertWriterLayer& layer, const Tensor& y) { return layer(y, in.bias, source, context); });
  }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return head_(hidden, context); }
  int64_t max_positions() const override { return c_.max_position_embeddings - (padding_ + 1); }
  int64_t width() const override { return c_.hidden_size; }

 private:
  // RoBERTa counts from behind its padding, which stays where it is.
  Tensor places(const DecoderInputs& in, const ForwardContext& context) const {
    if (padding_ < 0) return in.position_ids;
    if (in.input_ids.defined() && !context.cache) return positions_after_padding(in.input_ids, padding_);
    const Tensor places = in.position_ids + static_cast<double>(padding_ + 1);
    if (!in.input_ids.defined()) return places;
    const auto all = [&](double value) { return full(in.input_ids.shape(), value, DType::kInt64); };
    const Tensor padding = all(static_cast<double>(padding_));
    return select(equal(cast(in.input_ids, DType::kInt64), padding), padding,
                  broadcast_to(cast(places, DType::kInt64), padding.shape()));
  }

  static std::vector<BertWriterLayer> layers_of(const Scope& scope, const BertConfig& c) {
    std::vector<BertWriterLayer> layers;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(scope / i, c, i);
    return layers;
  }

  BertConfig c_;
  BertEmbeddings embeddings_;
  std::vector<BertWriterLayer> layers_;
  Head head_;
  int64_t padding_ = -1;  // -1: positions count from 0
};

}  // namespace

std::unique_ptr<SourceWriter> make_bert_writer(const Config& config, const Scope& scope, int64_t /*source_width*/) {
  return std::make_unique<BertWriter<BertPredictions>>(config, scope, "bert", false);
}

std::unique_ptr<SourceWriter> make_roberta_writer(const Config& config, const Scope& scope, int64_t /*source_width*/) {
  return std::make_unique<BertWriter<RobertaLMHead>>(config, scope, "roberta", true);
}

}  // namespace transom
