// SPDX-License-Identifier: Apache-2.0
// DeBERTa v2 and v3 (He et al., 2021): a BERT whose attention sees content and relative position apart. A score is the
// sum of content to content, content to position (c2p) and position to content (p2c). B batch, T time, D hidden, H
// heads, d head size, R relative positions.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "models/family.h"
#include "models/nn/vision/convolution.h"
#include "models/shared/encoder_model.h"
#include "models/shared/relative_distance.h"

namespace transom {
namespace {

struct DebertaV2Config : BertConfig {
  explicit DebertaV2Config(const Config& config);
  bool relative_attention, position_biased_input, share_att_key, c2p = false, p2c = false, norm_rel_ebd = false, legacy;
  int64_t position_buckets, max_relative_positions, embedding_size, attention_head_size, conv_kernel_size, conv_groups,
      pooler_hidden_size;
  double pooler_dropout, cls_dropout;
  std::string conv_act, pooler_hidden_act;

  // Relative positions lie within -span .. span - 1.
  int64_t span() const { return position_buckets > 0 ? position_buckets : max_relative_positions; }
  int64_t all_heads() const { return num_attention_heads * attention_head_size; }
};

// A list of names, or one string with bars between them.
std::vector<std::string> names_in(const Config& config, const std::string& field) {
  if (!config.has(field)) return {};
  if (!json_of(config)[field].is_string()) return config.get_strings(field);
  std::vector<std::string> names(1);
  for (const char c : config.get_string(field)) {
    if (c == '|') names.emplace_back();
    else if (c != ' ') names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return names;
}

DebertaV2Config::DebertaV2Config(const Config& config)
    : BertConfig(with_defaults(config, R"({"vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24,
          "num_attention_heads": 24, "intermediate_size": 6144, "type_vocab_size": 0, "layer_norm_eps": 1e-7})")),
      relative_attention(config.get_bool("relative_attention", false)),
      position_biased_input(config.get_bool("position_biased_input", true)),
      share_att_key(config.get_bool("share_att_key", false)),
      legacy(config.get_bool("legacy", true)),
      position_buckets(config.get_int("position_buckets", -1)),
      max_relative_positions(config.get_int("max_relative_positions", -1)),
      embedding_size(config.get_int("embedding_size", hidden_size)),
      attention_head_size(config.get_int("attention_head_size", hidden_size / num_attention_heads)),
      conv_kernel_size(config.get_int("conv_kernel_size", 0)),
      conv_groups(config.get_int("conv_groups", 1)),
      pooler_hidden_size(config.get_int("pooler_hidden_size", hidden_size)),
      pooler_dropout(config.get_float("pooler_dropout", 0)),
      cls_dropout(config.get_float("cls_dropout", hidden_dropout_prob)),
      conv_act(config.get_string("conv_act", "tanh")),
      pooler_hidden_act(config.get_string("pooler_hidden_act", "gelu")) {
  classifier_dropout = hidden_dropout_prob;
  if (max_relative_positions < 1) max_relative_positions = max_position_embeddings;
  constexpr int64_t kFarthest = int64_t{1} << 20;
  if (std::max(max_relative_positions, position_buckets) > kFarthest)
    fail("config.json: max_relative_positions and position_buckets: expected at most {}, found {} and {}", kFarthest,
         max_relative_positions, position_buckets);
  for (const std::string& type : names_in(config, "pos_att_type")) {
    if (type == "c2p") c2p = true;
    else if (type == "p2c") p2c = true;
    else fail("config.json: pos_att_type: {} is not carried out; c2p and p2c are", quoted(type));
  }
  for (const std::string& norm : names_in(config, "norm_rel_ebd")) norm_rel_ebd |= norm == "layer_norm";
  if (pooler_hidden_size != hidden_size)
    fail("config.json: pooler_hidden_size {} must be hidden_size {}", pooler_hidden_size, hidden_size);
}

// Near positions have a bucket each; farther ones share buckets of growing ranges.
int64_t log_bucket(int64_t distance, int64_t buckets, int64_t max_position) {
  const int64_t middle = buckets / 2, length = std::abs(distance);
  if (length <= middle) return distance;
  const auto ratio = [&](double x) { return std::log(static_cast<float>(x / static_cast<double>(middle))); };
  const float place = std::ceil(ratio(static_cast<double>(length)) / ratio(static_cast<double>(max_position - 1)) *
                                static_cast<float>(middle - 1));
  const int64_t bucket = static_cast<int64_t>(place) + middle;
  return distance < 0 ? -bucket : bucket;
}

// The relative position of each query and key as a row of the table of 2 span: i64 [T, T].
Tensor relative_positions(int64_t T, const DebertaV2Config& c) {
  // Twice the greatest distance of a bucket of its own is in the last one for certain: one table serves every length.
  const int64_t M = 2 * std::max(c.max_relative_positions, c.span());
  std::vector<int64_t> rows;  // of the distances -M .. M
  for (int64_t distance = -M; distance <= M; ++distance) {
    const int64_t position =
        c.position_buckets > 0 ? log_bucket(distance, c.position_buckets, c.max_relative_positions) : distance;
    rows.push_back(std::clamp<int64_t>(position + c.span(), 0, 2 * c.span() - 1));
  }
  const Tensor place = clipped(iota({T, T}, 0) - iota({T, T}, 1), M) + static_cast<double>(M);
  return gather(Tensor::from(rows, {2 * M + 1}), place, 0);
}

// The score of what is not seen: finite, since a place of padding sees nothing at all.
double hidden_score(DType dtype) { return dtype == DType::kFloat16 ? -65504.0 : -3.3895313892515355e38; }

// What all layers see of positions.
struct DistanceTables {
  Tensor embeddings;  // [1, R, D]; empty without relative attention
  Tensor rows;        // i64 [T, T]
};

class DisentangledAttention {
 public:
  DisentangledAttention(const Scope& scope, const DebertaV2Config& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        scale_(1 / std::sqrt(static_cast<double>(c.attention_head_size * (1 + (c.c2p ? 1 : 0) + (c.p2c ? 1 : 0))))),
        c2p_(c.relative_attention && c.c2p),
        p2c_(c.relative_attention && c.p2c),
        query_proj_(scope / "query_proj", c.hidden_size, c.all_heads(), c.new_weights()),
        key_proj_(scope / "key_proj", c.hidden_size, c.all_heads(), c.new_weights()),
        value_proj_(scope / "value_proj", c.hidden_size, c.all_heads(), c.new_weights()),
        position_dropout_(c.hidden_dropout_prob),
        dropout_(c.attention_probs_dropout_prob) {
    if (c.share_att_key) return;
    if (c2p_) pos_key_proj_.emplace(scope / "pos_key_proj", c.hidden_size, c.all_heads(), c.new_weights());
    if (p2c_) pos_query_proj_.emplace(scope / "pos_query_proj", c.hidden_size, c.all_heads(), c.new_weights());
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, const DistanceTables& positions,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    const int64_t B = x.dim(0), T = x.dim(1);
    const Tensor queries = split(query_proj_(x, context)), keys = split(key_proj_(x, context)),
                 values = split(value_proj_(x, context));
    Tensor scores = products(queries, keys, context);  // [B, H, T, T]
    if (c2p_ || p2c_) {
      const Tensor embeddings = position_dropout_(positions.embeddings, context);
      if (c2p_)
        scores =
            scores + chosen(products(queries, of_positions(key_or(pos_key_proj_), embeddings, B, context), context),
                            positions.rows);
      if (p2c_)  // the position seen from the key: the same row, as buckets are symmetric
        scores =
            scores +
            transpose(chosen(products(keys, of_positions(query_or(pos_query_proj_), embeddings, B, context), context),
                             permute(positions.rows, {1, 0})),
                      2, 3);
    }
    scores = scores * scale_;
    // Scores of padding are replaced, so that no gradient comes from there.
    if (mask.defined())
      scores = select(broadcast_to(mask, scores.shape()), scores,
                      full(scores.shape(), hidden_score(scores.dtype()), scores.dtype()));
    const Tensor weights = cast(dropout_(softmax(scores, context.computing), context), values.dtype());
    const Tensor mixed = dot_general(weights, values, {{0, 1}, {0, 2}, {3}, {1}}, context.computing);  // [B, H, T, d]
    return reshape(permute(mixed, {0, 2, 1, 3}), {B, T, -1});
  }

 private:
  Tensor split(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }
  static Tensor products(const Tensor& x, const Tensor& y, ForwardContext& context) {
    return dot_general(x, y, {{0, 2}, {0, 2}, {3}, {3}}, context.computing);
  }
  const Linear& key_or(const std::optional<Linear>& own) const { return own ? *own : key_proj_; }
  const Linear& query_or(const std::optional<Linear>& own) const { return own ? *own : query_proj_; }
  Tensor of_positions(const Linear& projection, const Tensor& embeddings, int64_t B,
                      ForwardContext& context) const {  // [B, R, H, d]
    const Tensor projected = split(projection(embeddings, context));
    return broadcast_to(projected, {B, projected.dim(1), projected.dim(2), projected.dim(3)});
  }
  // scores [B, H, T, R] of all relative positions, rows [T, T] -> [B, H, T, T]
  static Tensor chosen(const Tensor& scores, const Tensor& rows) {
    return take_along_axis(scores, broadcast_to(rows, {scores.dim(0), scores.dim(1), rows.dim(0), rows.dim(1)}), 3);
  }

  std::string path_;
  int64_t heads_;
  double scale_;
  bool c2p_, p2c_;
  Linear query_proj_, key_proj_, value_proj_;
  std::optional<Linear> pos_key_proj_, pos_query_proj_;
  Dropout position_dropout_, dropout_;
};

class DebertaV2Layer {
 public:
  DebertaV2Layer(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.hidden_act),
        self_(scope / "attention" / "self", c),
        attention_output_(scope / "attention" / "output" / "dense", c.all_heads(), c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        output_norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, const DistanceTables& positions,
                    ForwardContext& context) const {
    const Tensor attended = attention_output_(self_(x, mask, positions, context), context);
    const Tensor h = attention_norm_(dropout_(attended, context) + x, context);
    return output_norm_(dropout_(output_(activation(activation_, intermediate_(h, context)), context), context) + h,
                        context);
  }

 private:
  std::string activation_;
  DisentangledAttention self_;
  Linear attention_output_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

// A convolution over time beside the first layer.
class ConvolutionLayer {
 public:
  ConvolutionLayer(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.conv_act),
        conv_(scope / "conv", c.hidden_size, c.hidden_size, {c.conv_kernel_size},
              {.low = {(c.conv_kernel_size - 1) / 2},
               .high = {(c.conv_kernel_size - 1) / 2},
               .groups = c.conv_groups,
               .deviation = c.initializer_range}),
        layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {
    if (c.conv_kernel_size % 2 == 0)
      fail("config.json: conv_kernel_size: expected an odd number, found {}", c.conv_kernel_size);
  }
  // What went into the first layer, what came out, and 1 for tokens that count, [B, T, 1], or empty.
  Tensor operator()(const Tensor& in, const Tensor& out, const Tensor& counted, ForwardContext& context) const {
    Tensor x = permute(conv_(permute(in, {0, 2, 1}), context), {0, 2, 1});
    if (counted.defined()) x = x * counted;
    const Tensor y = layer_norm_(out + activation(activation_, dropout_(x, context)), context);
    return counted.defined() ? y * counted : y;
  }

 private:
  std::string activation_;
  Convolution conv_;
  LayerNorm layer_norm_;
  Dropout dropout_;
};

class DebertaV2Body {
 public:
  using Settings = DebertaV2Config;
  static constexpr const char* kPrefix = "deberta";
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  DebertaV2Body(const Scope& scope, const DebertaV2Config& c)
      : c_(c),
        word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.embedding_size, c.initializer_range,
                         c.pad_token_id.value_or(-1)),
        layer_norm_(scope / "embeddings" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {
    if (c.position_biased_input)
      position_embeddings_.emplace(scope / "embeddings" / "position_embeddings", c.max_position_embeddings,
                                   c.embedding_size, c.initializer_range);
    if (c.type_vocab_size > 0)
      token_type_embeddings_.emplace(scope / "embeddings" / "token_type_embeddings", c.type_vocab_size,
                                     c.embedding_size, c.initializer_range);
    if (c.embedding_size != c.hidden_size)
      embed_proj_.emplace(scope / "embeddings" / "embed_proj", c.embedding_size, c.hidden_size,
                          Linear::Options{.bias = false, .deviation = c.initializer_range});
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_.emplace_back(scope / "encoder" / "layer" / i, c);
    if (c.relative_attention)
      rel_embeddings_ = (scope / "encoder" / "rel_embeddings")
                            .parameter("weight", {2 * c.span(), c.hidden_size}, Initial::normal(c.initializer_range));
    if (c.norm_rel_ebd) rel_norm_.emplace(scope / "encoder" / "LayerNorm", c.hidden_size, c.layer_norm_eps);
    if (c.conv_kernel_size > 0) conv_.emplace(scope / "encoder" / "conv", c);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor attention_mask = inputs.find("attention_mask");
    if (attention_mask.defined() && attention_mask.rank() != 2)
      fail("attention_mask: expected [batch, length], found {}", to_string(attention_mask.shape()));
    // Without position embeddings there is no longest text.
    const EncoderInputs in =
        encoder_inputs(inputs, position_embeddings_ ? c_.max_position_embeddings : std::numeric_limits<int64_t>::max());
    Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : word_embeddings_(in.input_ids, context);
    if (position_embeddings_) x = x + (*position_embeddings_)(in.position_ids, context);
    if (token_type_embeddings_)
      x = x + (*token_type_embeddings_)(
                  in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64), context);
    if (embed_proj_) x = (*embed_proj_)(x, context);
    x = layer_norm_(x, context);
    // Padding neither sees nor is seen, as in Transformers: what stands there enters the loss of answers.
    Tensor counted, mask;  // [B, T, 1]; bool [B, 1, T, T]
    if (attention_mask.defined()) {
      counted = unsqueeze(cast(attention_mask, x.dtype()), 2);
      mask = unsqueeze(cast(counted * permute(counted, {0, 2, 1}), DType::kBool), 1);
    }
    if (counted.defined()) x = x * counted;
    x = dropout_(x, context);

    DistanceTables positions;
    if (rel_embeddings_) {
      const Tensor& table = rel_embeddings_->value;
      positions = {unsqueeze(rel_norm_ ? (*rel_norm_)(table, context) : table, 0), relative_positions(in.length, c_)};
    }
    EncoderOutput output;
    if (context.output_hidden_states) output.hidden_states.push_back(x);
    for (size_t i = 0; i < layer_.size(); ++i) {
      const auto through = [&](const std::vector<Tensor>& y) {
        const Tensor out = layer_[i](y[0], mask, positions, context);
        return i == 0 && conv_ ? (*conv_)(y[0], out, counted, context) : out;
      };
      x = context.gradient_checkpointing && context.training ? checkpoint(through, {x}) : through({x});
      if (context.output_hidden_states) output.hidden_states.push_back(x);
    }
    output.last_hidden_state = x;
    return output;
  }
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  DebertaV2Config c_;
  Embedding word_embeddings_;
  std::optional<Embedding> position_embeddings_, token_type_embeddings_;
  std::optional<Linear> embed_proj_;
  LayerNorm layer_norm_;
  Dropout dropout_;
  std::vector<DebertaV2Layer> layer_;
  std::shared_ptr<Parameter> rel_embeddings_;
  std::optional<LayerNorm> rel_norm_;
  std::optional<ConvolutionLayer> conv_;
};

using DebertaV2WithHead = EncoderModel<DebertaV2Body>;

// The first token, through a dense layer: [B, T, D] -> [B, D].
class ContextPooler {
 public:
  ContextPooler(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.pooler_hidden_act),
        dense_(scope / "dense", c.pooler_hidden_size, c.pooler_hidden_size, c.new_weights()),
        dropout_(c.pooler_dropout) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return activation(activation_, dense_(dropout_(first_token(hidden), context), context));
  }

 private:
  std::string activation_;
  Linear dense_;
  Dropout dropout_;
};

class DebertaV2Model : public DebertaV2WithHead {
 public:
  DebertaV2Model(const Config& config, const Scope& scope) : DebertaV2WithHead(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

class DebertaV2ForSequenceClassification : public DebertaV2WithHead {
 public:
  DebertaV2ForSequenceClassification(const Config& config, const Scope& scope)
      : DebertaV2WithHead(config, scope),
        pooler_(scope / "pooler", config_),
        dropout_(config_.cls_dropout),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor logits = classifier_(dropout_(pooler_(hidden, context), context), context),
                   labels = inputs.find("labels");
      return with_loss(labels.defined() ? loss(logits, labels, context) : Tensor(), {{"logits", logits}});
    });
  }

 private:
  // Without a problem type: negative labels do not count, and labels for each class are a distribution.
  Tensor loss(const Tensor& logits, const Tensor& labels, const ForwardContext& context) const {
    const bool one_a_row = labels.rank() == 1 || labels.dim(-1) == 1;
    if (!config_.problem_type.empty() || config_.num_labels == 1)
      return classification_loss(logits, labels, config_.problem_type, context);
    if (one_a_row) {
      const Tensor ids = cast(labels, DType::kInt64), none = full(ids.shape(), -100, DType::kInt64);
      return mean_cross_entropy(logits, select(less(ids, full(ids.shape(), 0, DType::kInt64)), none, ids), context);
    }
    const Tensor target = cast(labels, DType::kFloat32);
    return -mean_of_all(reduce_sum(log_softmax(cast(logits, DType::kFloat32), context.computing) * target, {1}),
                        context);
  }

  ContextPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

class DebertaV2ForMultipleChoice : public DebertaV2WithHead {
 public:
  DebertaV2ForMultipleChoice(const Config& config, const Scope& scope)
      : DebertaV2WithHead(config, scope),
        pooler_(scope / "pooler", config_),
        dropout_(config_.cls_dropout),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooler_(hidden, context), context), context), choices, inputs,
                            context);
    });
  }

 private:
  ContextPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

// Of two layouts: the older has BERT's names.
class DebertaV2ForMaskedLM : public DebertaV2WithHead {
 public:
  DebertaV2ForMaskedLM(const Config& config, const Scope& scope)
      : DebertaV2WithHead(config, scope),
        dense_((config_.legacy ? scope / "cls" / "predictions" / "transform" : scope / "lm_predictions" / "lm_head") /
                   "dense",
               config_.hidden_size, config_.embedding_size, config_.new_weights()),
        layer_norm_(
            (config_.legacy ? scope / "cls" / "predictions" / "transform" : scope / "lm_predictions" / "lm_head") /
                "LayerNorm",
            config_.embedding_size, config_.layer_norm_eps),
        decoder_(config_.legacy ? scope / "cls" / "predictions" : scope / "lm_predictions" / "lm_head",
                 config_.tie_word_embeddings || !config_.legacy ? "bias" : "decoder.bias", "decoder.weight",
                 body_.word_embeddings(), config_.tie_word_embeddings || !config_.legacy, config_.embedding_size,
                 config_.vocab_size, config_.initializer_range) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(
          decoder_(layer_norm_(activation(config_.hidden_act, dense_(hidden, context)), context), context), inputs,
          context);
    });
  }

 private:
  Linear dense_;
  LayerNorm layer_norm_;
  TiedDecoder decoder_;
};

}  // namespace

static Family deberta_v2_family() {
  return {
      .model_type = "deberta-v2",
      .base_prefix = "deberta",
      .architectures = {{"DebertaV2Model", body_head({"feature-extraction"}), make_model<DebertaV2Model>},
                        {"DebertaV2ForSequenceClassification", sequence_classification_head({"pooler", "classifier"}),
                         make_model<DebertaV2ForSequenceClassification>},
                        {"DebertaV2ForTokenClassification", token_classification_head({"classifier"}),
                         make_model<EncoderForTokenClassification<DebertaV2Body>>},
                        {"DebertaV2ForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<EncoderForQuestionAnswering<DebertaV2Body>>},
                        {"DebertaV2ForMaskedLM",
                         masked_lm_head({"cls", "lm_predictions"},
                                        {"cls.predictions.decoder", "lm_predictions.lm_head.decoder"}),
                         make_model<DebertaV2ForMaskedLM>},
                        {"DebertaV2ForMultipleChoice", multiple_choice_head({"pooler", "classifier"}),
                         make_model<DebertaV2ForMultipleChoice>}},
      .inputs = typed_text_inputs(0),
      .processors = {.tokenizer = "DebertaV2",
                     .image_processor = none,
                     .positions =
                         PositionLimit{.fields = {"max_position_embeddings"}, .table_flag = "position_biased_input"},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"query_proj", "value_proj"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"key_proj", "value_proj", "output.dense"},
                                      .ia3_feedforward = {"output.dense"},
                                      .norms = {},
                                      .adalora = {"query_proj", "key_proj", "value_proj", "dense"}}},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "deberta"}, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kDebertaV2Family{deberta_v2_family};

}  // namespace transom
