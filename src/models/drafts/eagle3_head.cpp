// SPDX-License-Identifier: Apache-2.0
// EAGLE-3: states of three layers of the model, through one linear layer, beside the embedding of the token behind,
// both normed, into the attention of one block of LLaMA's kind; its own scores are of a part of the vocabulary.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/model_config.h"
#include "models/drafts/draft_head.h"
#include "models/drafts/head_parameters.h"
#include "models/nn/attention/attention.h"
#include "models/shared/blocks/feed_forward_layer.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

constexpr int64_t kMostRows = 1 << 24, kWidest = 1 << 20;

struct Eagle3Config {
  int64_t width, heads, key_heads, head_size, inner, vocabulary, rows, positions;
  double epsilon;
  bool bias, inner_bias, norms_residual;
  std::string activation;
  RotaryOptions rotary;
  std::vector<size_t> reads;
};

// Keys that say nothing here: of training, of tokens, and what is checked by shapes.
constexpr const char* kKnown[] = {"architectures",
                                  "model_type",
                                  "dtype",
                                  "torch_dtype",
                                  "bos_token_id",
                                  "eos_token_id",
                                  "pad_token_id",
                                  "initializer_range",
                                  "attention_dropout",
                                  "transformers_version",
                                  "use_cache",
                                  "max_window_layers",
                                  "pretraining_tp",
                                  "tie_word_embeddings",
                                  "target_model_type",
                                  "_name_or_path",
                                  "hidden_size",
                                  "num_attention_heads",
                                  "num_key_value_heads",
                                  "head_dim",
                                  "intermediate_size",
                                  "vocab_size",
                                  "draft_vocab_size",
                                  "max_position_embeddings",
                                  "rms_norm_eps",
                                  "attention_bias",
                                  "mlp_bias",
                                  "hidden_act",
                                  "rope_theta",
                                  "rope_scaling",
                                  "rope_parameters",
                                  "num_hidden_layers",
                                  "use_sliding_window",
                                  "sliding_window",
                                  "layer_types",
                                  "target_hidden_size",
                                  "norm_before_residual",
                                  "eagle_config",
                                  "eagle_aux_hidden_state_layer_ids"};

int64_t sized(const Config& config, const char* key, int64_t otherwise, int64_t most) {
  const int64_t value = otherwise > 0 ? config.get_int(key, otherwise) : config.get_int(key);
  if (value < 1 || value > most)
    fail("{}: {}: expected a number from 1 to {}, found {}", config.where(), key, most, value);
  return value;
}

// The layers whose inputs are read: as the configuration says, else one near the beginning, the middle and the end.
std::vector<size_t> layers_read(const Config& config, int64_t layers) {
  std::vector<int64_t> numbers = config.get_ints("eagle_aux_hidden_state_layer_ids");
  if (const Config own = config.get_object("eagle_config"); !own.keys().empty()) {
    for (const std::string& key : own.keys())
      if (key != "eagle_aux_hidden_state_layer_ids" && key != "use_aux_hidden_state")
        fail(ErrorKind::kUnsupported, "{}: eagle_config: {} is not carried out", config.where(), quoted(key));
    if (!own.get_bool("use_aux_hidden_state", true))
      fail(ErrorKind::kUnsupported, "{}: eagle_config: use_aux_hidden_state = false is not carried out",
           config.where());
    if (numbers.empty()) numbers = own.get_ints("eagle_aux_hidden_state_layer_ids");
  }
  if (numbers.empty()) numbers = {2, layers / 2, layers - 3};
  std::vector<size_t> reads;
  for (const int64_t number : numbers) {
    if (number < 0 || number >= layers || numbers.size() > 16)
      fail("{}: a head of EAGLE-3 reads the layers {}, of a model that has {}; expected at most 16, from 0 to {}",
           config.where(), fmt::join(numbers, ", "), layers, layers - 1);
    reads.push_back(static_cast<size_t>(number));
  }
  return reads;
}

Eagle3Config eagle3_config(const Config& config, const GenerativeModel& model) {
  for (const std::string& key : config.keys())
    if (std::ranges::find(kKnown, key) == std::end(kKnown))
      fail(ErrorKind::kUnsupported, "{}: {} of a head of EAGLE-3 is not carried out", config.where(), quoted(key));
  if (config.get_int("num_hidden_layers", 1) != 1)
    fail(ErrorKind::kUnsupported, "{}: a head of EAGLE-3 has one layer, found num_hidden_layers = {}", config.where(),
         config.get_int("num_hidden_layers"));
  if (config.get_bool("use_sliding_window", false))
    fail(ErrorKind::kUnsupported, "{}: use_sliding_window of a head of EAGLE-3 is not carried out", config.where());
  const Config text = text_config_of(model.config());
  Eagle3Config own{};
  own.width = sized(config, "hidden_size", 0, kWidest);
  own.heads = sized(config, "num_attention_heads", 0, kWidest);
  own.key_heads = sized(config, "num_key_value_heads", own.heads, kWidest);
  own.head_size = sized(config, "head_dim", std::max<int64_t>(own.width / own.heads, 1), kWidest);
  own.inner = sized(config, "intermediate_size", 0, kWidest);
  own.vocabulary = text.get_int("vocab_size");
  own.rows = sized(config, "draft_vocab_size", own.vocabulary, kMostRows);
  own.positions = sized(config, "max_position_embeddings", 2048, int64_t{1} << 40);
  if (own.heads % own.key_heads != 0 || own.head_size % 2 != 0)
    fail("{}: {} heads of {} numbers with {} heads of keys: expected a multiple, and an even number", config.where(),
         own.heads, own.head_size, own.key_heads);
  if (config.get_int("target_hidden_size", text.get_int("hidden_size")) != text.get_int("hidden_size"))
    fail("{}: target_hidden_size: expected {}, as wide as the model is, found {}", config.where(),
         text.get_int("hidden_size"), config.get_int("target_hidden_size"));
  own.epsilon = config.get_float("rms_norm_eps", 1e-6);
  own.bias = config.get_bool("attention_bias", false);
  own.inner_bias = config.get_bool("mlp_bias", false);
  own.norms_residual = config.get_bool("norm_before_residual", false);
  own.activation = config.get_string("hidden_act", "silu");
  own.rotary = rotary_options(config, {.head_width = own.head_size, .max_positions = own.positions});
  own.reads = layers_read(config, text.get_int("num_hidden_layers"));
  return own;
}

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
      tokens_[row] += static_cast<int64_t>(row);
      if (distance < -kMostRows || distance > kMostRows || tokens_[row] < 0 || tokens_[row] >= config_.vocabulary)
        fail("drafts: d2t[{}] = {} leads to none of the model's {} tokens", row, distance, config_.vocabulary);
    }
  }

  Predicted operator()(const Tensor& ids, const Tensor& positions, const Tensor& states, bool first, int64_t scored,
                       ForwardContext& context) const override {
    const Tensor tokens = own_tokens_ ? (*own_tokens_)(ids, context) : body_.embed(ids, context);
    const Tensor given = cast(states, tokens.dtype());
    const Tensor h = first ? fc_(given, context) : given, normed = of_states_(h, context);
    const Tensor joined = concatenate({of_tokens_(tokens, context), normed}, 2);
    const Tensor seen = (config_.norms_residual ? normed : h) + attended(joined, positions, context);
    const Tensor made = seen + feed_forward_(before_feed_forward_(seen, context), context);
    const Tensor last = squeeze(slice(made, 1, made.dim(1) - scored, made.dim(1)), 0);
    return {cast(scores_(norm_(last, context), context), DType::kFloat32), cast(last, DType::kFloat32)};
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
  HeadParameters source(checkpoint, model, options, {}, {});
  auto head = std::make_unique<Eagle3Head>(eagle3_config(config, model), model, Scope(source));
  const std::vector<std::string> unexpected = source.finish(config, directory);
  if (!unexpected.empty())
    fail(ErrorKind::kUnsupported, "{}: {} is no tensor of a head of EAGLE-3", directory, quoted(unexpected[0]));
  head->read_tokens();
  return head;
}

}  // namespace transom
