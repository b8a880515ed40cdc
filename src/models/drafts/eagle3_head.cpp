// SPDX-License-Identifier: Apache-2.0
// EAGLE-3: states of three layers of the model, through one linear layer, beside the embedding of the token behind,
// both normed, into the attention of one block of LLaMA's kind; its own scores are of a part of the vocabulary.
#include <cmath>

#include "base/error.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/model_config.h"
#include "models/drafts/draft_head.h"
#include "models/drafts/eagle3_config.h"
#include "models/drafts/head_parameters.h"
#include "models/nn/attention/attention.h"
#include "models/shared/blocks/feed_forward_layer.h"

namespace transom {
namespace {

constexpr int64_t kFarthest = 1 << 24;  // of a token from its row

FeedForwardPlan feed_forward_of(const Eagle3Config& config) {
  FeedForwardPlan plan;
  plan.width = config.inner, plan.activation = config.activation, plan.bias = config.inner_bias;
  return plan;
}

class Eagle3Head : public DraftHead {
 public:
  Eagle3Head(Eagle3Config config, const GenerativeModel& model, const Scope& scope)
      : config_(std::move(config)),
        body_(body_of(model)),
        rotary_(config_.rotary),
        dropout_(0),
        fc_(scope / "fc", static_cast<int64_t>(config_.reads.size()) * body_.traits().width, config_.width,
            {.bias = scope.holds("fc.bias")}),
        of_tokens_(scope / "midlayer" / "input_layernorm", config_.width, config_.epsilon),
        of_states_(scope / "midlayer" / "hidden_norm", config_.width, config_.epsilon),
        query_(scope / "midlayer" / "self_attn" / "q_proj", 2 * config_.width, config_.heads * config_.head_size,
               {.bias = config_.bias}),
        key_(scope / "midlayer" / "self_attn" / "k_proj", 2 * config_.width, config_.key_heads * config_.head_size,
             {.bias = config_.bias}),
        value_(scope / "midlayer" / "self_attn" / "v_proj", 2 * config_.width, config_.key_heads * config_.head_size,
               {.bias = config_.bias}),
        output_(scope / "midlayer" / "self_attn" / "o_proj", config_.heads * config_.head_size, config_.width,
                {.bias = config_.bias}),
        before_feed_forward_(scope / "midlayer" / "post_attention_layernorm", config_.width, config_.epsilon),
        feed_forward_(scope / "midlayer", feed_forward_of(config_), config_.width, 0.02),
        norm_(scope / "norm", config_.width, config_.epsilon),
        scores_(scope / "lm_head", config_.width, config_.rows, {.bias = false}) {
    if (scope.holds("embed_tokens.weight"))
      own_tokens_.emplace(scope / "embed_tokens", config_.vocabulary, config_.width);
    else if (body_.traits().width != config_.width)
      fail("drafts: the embeddings of {} have {} numbers, the head {}: expected embed_tokens.weight beside it",
           model.architecture(), body_.traits().width, config_.width);
    if (config_.norms_states)
      before_fc_.emplace(scope / "input_norm", static_cast<int64_t>(config_.reads.size()) * body_.traits().width,
                         config_.epsilon);
    scope.derived("t2d");  // says of each token whether it is among d2t
    if (scope.holds("d2t")) d2t_ = scope.buffer("d2t", {DType::kInt64, {config_.rows}}, Initial::zeros());
    else if (config_.rows != config_.vocabulary)
      fail("drafts: a head of {} tokens for a model of {}: expected d2t, which says which", config_.rows,
           config_.vocabulary);
  }
  // When values are there: the token of a row is its number and what d2t has for it.
  void read_tokens() {
    if (!d2t_) return;
    tokens_ = d2t_->value.to_vector<int64_t>();
    for (size_t row = 0; row < tokens_.size(); ++row) {
      const int64_t distance = tokens_[row];
      const bool is_far = distance < -kFarthest || distance > kFarthest;  // and no number to add to
      if (!is_far) tokens_[row] += static_cast<int64_t>(row);
      if (is_far || tokens_[row] < 0 || tokens_[row] >= config_.vocabulary)
        fail("drafts: d2t[{}] = {} leads to none of the model's {} tokens", row, distance, config_.vocabulary);
    }
  }

  Predicted operator()(const Tensor& ids, const Tensor& positions, const Tensor& states, bool first, int64_t scored,
                       ForwardContext& context) const override {
    const Tensor tokens = own_tokens_ ? (*own_tokens_)(ids, context) : body_.embed(ids, context);
    const Tensor given = cast(states, tokens.dtype());
    const Tensor h = first ? fc_(before_fc_ ? (*before_fc_)(given, context) : given, context) : given;
    const Tensor normed = of_states_(h, context);
    const Tensor joined = concatenate({of_tokens_(tokens, context), normed}, 2);
    const Tensor seen = (config_.norms_residual ? normed : h) + attended(joined, positions, context);
    const Tensor made = seen + feed_forward_(before_feed_forward_(seen, context), context);
    const Tensor last = squeeze(slice(made, 1, made.dim(1) - scored, made.dim(1)), 0), out = norm_(last, context);
    return {cast(scores_(out, context), DType::kFloat32), cast(config_.passes_normed_on ? out : last, DType::kFloat32)};
  }
  std::vector<size_t> reads() const override { return config_.reads; }
  int64_t width() const override { return config_.width; }
  int64_t token_of(int64_t row) const override { return tokens_.empty() ? row : tokens_[static_cast<size_t>(row)]; }
  int64_t max_positions() const override { return config_.positions; }

 private:
  Tensor attended(const Tensor& x, const Tensor& positions, ForwardContext& context) const {
    const auto heads = [&](const Tensor& y, int64_t count) {
      return reshape(y, {x.dim(0), x.dim(1), count, config_.head_size});
    };
    const RotaryAngles angles = rotary_(positions);
    const Tensor q = rotate(heads(query_(x, context), config_.heads), angles);
    const Tensor k = rotate(heads(key_(x, context), config_.key_heads), angles);
    const Tensor v = heads(value_(x, context), config_.key_heads);
    const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(config_.head_size))};
    return output_(cached_attention(0, q, k, v, {}, options, dropout_, context), context);
  }

  Eagle3Config config_;
  const Decoder& body_;
  RotaryEmbedding rotary_;
  Dropout dropout_;
  Linear fc_;
  std::optional<RmsNorm> before_fc_;
  RmsNorm of_tokens_, of_states_;
  Linear query_, key_, value_, output_;
  RmsNorm before_feed_forward_;
  PlannedFeedForward feed_forward_;
  RmsNorm norm_;
  Linear scores_;
  std::optional<Embedding> own_tokens_;
  std::shared_ptr<Parameter> d2t_;  // null: all tokens in their order
  std::vector<int64_t> tokens_;
};

}  // namespace

std::unique_ptr<DraftHead> load_eagle3_head(const std::string& directory, const GenerativeModel& model,
                                            const LoadOptions& options) {
  const Config config = read_model_config(directory);
  const Checkpoint checkpoint = Checkpoint::open(directory);
  std::vector<std::pair<std::string, std::string>> renamed;
  if (checkpoint.find("layers.0.hidden_norm.weight")) renamed = {{"midlayer.", "layers.0."}};  // Speculators' name
  HeadParameters source(checkpoint, model, options, std::move(renamed), {});
  auto head = std::make_unique<Eagle3Head>(eagle3_config(config, model), model, Scope(source));
  const std::vector<std::string> unexpected = source.finish(config, directory);
  if (!unexpected.empty())
    fail(ErrorKind::kUnsupported, "{}: {} is no tensor of a head of EAGLE-3", directory, quoted(unexpected[0]));
  head->read_tokens();
  return head;
}

}  // namespace transom
