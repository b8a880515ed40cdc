// SPDX-License-Identifier: Apache-2.0
#include "models/families/mllama/mllama_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json/json.h"
#include "graph/ops/attention/paged_attention.h"
#include "models/nn/weight.h"
#include "models/shared/rotary/rope_plan.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr int64_t kMoreTokens = 8;  // that have vectors, and are never written

// What Transformers takes where a configuration is silent.
constexpr char kMllamaText[] = R"({"vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 40,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "rms_norm_eps": 1e-05,
  "max_position_embeddings": 131072, "pad_token_id": 128004,
  "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]})";

DecoderPlan mllama_plan(const Config& given) {
  Config config = with_defaults(given, kMllamaText);
  RopeDecoderConfig c(config);
  c.tie_word_embeddings = false;  // whatever the field says: there are more vectors of tokens than tokens to write
  c.attention_dropout = config.get_float("dropout", 0);
  c.rotary = {rotary_options(config, c.rotary_defaults(500000))};
  return rope_decoder_plan(c);
}

std::vector<bool> looking_layers(const Config& given, size_t layers) {
  const Config config = with_defaults(given, kMllamaText);
  std::vector<bool> looks(layers, false);
  for (const int64_t layer : config.get_ints("cross_attention_layers")) {
    if (layer < 0 || layer >= static_cast<int64_t>(layers))
      fail("{}: cross_attention_layers: {} is none of {} layers", config.where(), layer, layers);
    looks[static_cast<size_t>(layer)] = true;
  }
  if (std::all_of(looks.begin(), looks.end(), [](bool looking) { return looking; }))
    fail("{}: cross_attention_layers: expected a layer that reads the text among {}", config.where(), layers);
  return looks;
}

std::shared_ptr<Parameter> closed_gate(const Scope& scope, const char* name) {
  return scope.parameter(name, {1}, Initial::zeros());
}

}  // namespace

MllamaSelfBlock::MllamaSelfBlock(const Scope& scope, const DecoderPlan& plan, size_t block, int64_t number)
    : path_(scope.path()),
      self_attn_(scope, plan, plan.blocks[block].attention, number, block),
      mlp_(scope, plan.blocks[block].feed_forward, plan.width, plan.deviation),
      input_layernorm_(scope / "input_layernorm", plan.width, plan.norm),
      post_attention_layernorm_(scope / "post_attention_layernorm", plan.width, plan.norm) {}

Tensor MllamaSelfBlock::operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor h = x + self_attn_(input_layernorm_(x, context), inputs, context);
  return h + mlp_(post_attention_layernorm_(h, context), context);
}

MllamaCrossBlock::MllamaCrossBlock(const Scope& scope, const DecoderPlan& plan, size_t block, size_t number,
                                   int64_t rows)
    : path_(scope.path()),
      plan_(plan.blocks[block].attention),
      number_(number),
      rows_(rows),
      attention_gate_(closed_gate(scope, "cross_attn_attn_gate")),
      mlp_gate_(closed_gate(scope, "cross_attn_mlp_gate")),
      q_proj_(scope / "cross_attn" / "q_proj", plan.width, plan_.heads * plan_.head_size,
              {.bias = false, .deviation = plan.deviation}),
      k_proj_(scope / "cross_attn" / "k_proj", plan.width, plan_.key_value_heads * plan_.head_size,
              {.bias = false, .deviation = plan.deviation}),
      v_proj_(scope / "cross_attn" / "v_proj", plan.width, plan_.key_value_heads * plan_.head_size,
              {.bias = false, .deviation = plan.deviation}),
      o_proj_(scope / "cross_attn" / "o_proj", plan_.heads * plan_.head_size, plan.width,
              {.bias = false, .deviation = plan.deviation}),
      q_norm_(scope / "cross_attn" / "q_norm", plan_.head_size, plan.norm.epsilon),
      k_norm_(scope / "cross_attn" / "k_norm", plan_.head_size, plan.norm.epsilon),
      input_layernorm_(scope / "input_layernorm", plan.width, plan.norm),
      mlp_(scope, plan.blocks[block].feed_forward, plan.width, plan.deviation),
      post_attention_layernorm_(scope / "post_attention_layernorm", plan.width, plan.norm),
      dropout_(plan_.dropout) {}

KeysAndValues MllamaCrossBlock::keys_of(const Tensor& states, ForwardContext& context) const {
  Shape shape = states.shape();
  shape.back() = plan_.key_value_heads;
  shape.push_back(plan_.head_size);
  return {k_norm_(reshape(k_proj_(states, context), shape), context), reshape(v_proj_(states, context), shape)};
}

Tensor MllamaCrossBlock::operator()(const Tensor& x, const PicturesBeside& pictures, ForwardContext& context) const {
  const ModuleScope module(path_);
  const int64_t B = x.dim(0), T = x.dim(1), H = plan_.heads, d = plan_.head_size;
  const SeenSources* sources = context.cache && context.cache->sources ? &*context.cache->sources : nullptr;
  const Tensor q = q_norm_(reshape(q_proj_(input_layernorm_(x, context), context), {B, T, H, d}), context);
  Tensor mixed, feeds = pictures.feeds;
  if (sources) {
    const KeysAndValues& pool = sources->layers.at(number_);
    mixed = paged_attention(reshape(q, {B * T, 1, H, d}), pool.keys, pool.values, rows_, sources->tables,
                            sources->lengths, {.scale = plan_.scale}, context.computing);
    mixed = reshape(mixed, {B, T, H * d});
    feeds = equal(sources->reads, full({B * T}, 2, DType::kInt64));
    feeds = reshape(cast(feeds, x.dtype()), {B, T, 1});
  } else {
    const KeysAndValues seen = keys_of(pictures.states, context);
    mixed =
        attention(q, seen.keys, seen.values, pictures.bias, {.scale = plan_.scale, .causal = false}, dropout_, context);
  }
  const Tensor h = x + tanh(attention_gate_->value) * o_proj_(mixed, context);
  Tensor fed = mlp_(post_attention_layernorm_(h, context), context);
  if (feeds.defined()) fed = fed * cast(feeds, fed.dtype());
  const Tensor made = h + tanh(mlp_gate_->value) * fed;
  const Tensor reads = sources ? reshape(sources->reads, {B, T, 1}) : pictures.reads;
  if (!reads.defined()) return made;
  return select(greater(reads, zeros(reads.shape(), DType::kInt64)), made, cast(x, made.dtype()));
}

MllamaText::MllamaText(const Config& config, const Scope& scope, int64_t rows)
    : plan_(mllama_plan(config)),
      embed_tokens_(scope / "embed_tokens", plan_.vocabulary + kMoreTokens, plan_.width, plan_.deviation,
                    plan_.padding.value_or(-1)),
      norm_(scope / "norm", plan_.width, plan_.norm),
      rotary_(plan_.rotary.at(0).options) {
  plan_.traits.texts_in_rows = false;
  int64_t text = 0;
  size_t looking = 0;
  const std::vector<bool> looks = looking_layers(config, plan_.blocks.size());
  for (size_t i = 0; i < looks.size(); ++i) {
    const Scope inner = scope / "layers" / static_cast<int64_t>(i);
    if (looks[i]) layers_.push_back({{}, MllamaCrossBlock(inner, plan_, i, looking++, rows)});
    else layers_.push_back({MllamaSelfBlock(inner, plan_, i, text++), {}});
  }
}

std::vector<KeysAndValues> MllamaText::keys_of(const Tensor& states, ForwardContext& context) const {
  std::vector<KeysAndValues> all;
  for (const Block& block : layers_)
    if (block.cross) all.push_back(block.cross->keys_of(states, context));
  return all;
}

DecoderOutput MllamaText::operator()(const NamedTensors& inputs, const PicturesBeside& pictures,
                                     ForwardContext& context) const {
  const DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder);
  AttentionInputs pass{in, in.bias, {rotary_(in.position_ids)}};
  Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : embed_tokens_(in.input_ids, context);
  const bool looks = pictures.states.defined() || (context.cache && context.cache->sources);
  const bool again = context.gradient_checkpointing && context.training;
  DecoderOutput output;
  for (const Block& block : layers_) {
    if (block.cross && !looks) continue;
    if (context.output_hidden_states) output.hidden_states.push_back(x);
    if (block.self && again) {
      x = checkpoint([&](const std::vector<Tensor>& of) { return (*block.self)(of[0], pass, context); }, {x});
    } else if (block.self) {
      x = (*block.self)(x, pass, context);
    } else if (again && pictures.states.defined()) {
      const auto run = [&](const std::vector<Tensor>& of) {
        PicturesBeside own = pictures;
        own.states = of[1];
        return (*block.cross)(of[0], own, context);
      };
      x = checkpoint(run, {x, pictures.states});
    } else {
      x = (*block.cross)(x, pictures, context);
    }
  }
  output.last_hidden_state = norm_(x, context);
  if (context.output_hidden_states) output.hidden_states.push_back(output.last_hidden_state);
  return output;
}

}  // namespace transom
