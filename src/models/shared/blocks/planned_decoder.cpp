// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/planned_decoder.h"

#include <tuple>

#include "base/error.h"
#include "models/shared/blocks/attention_layer.h"
#include "models/shared/blocks/feed_forward_layer.h"
#include "models/shared/blocks/latent_attention.h"
#include "models/shared/blocks/layer_inputs.h"
#include "models/shared/blocks/position_bias.h"
#include "models/shared/blocks/sees_together.h"

namespace transom {
namespace {

// What a block's layers keep in a cache lies behind that of the blocks before it: keys and values, and states.
struct CacheNumbers {
  int64_t attention = 0;
  size_t state = 0;
};

class PlannedBlock {
 public:
  PlannedBlock(const Scope& scope, const DecoderPlan& plan, size_t number, CacheNumbers& next)
      : path_(scope.path()),
        plan_(plan.blocks[number]),
        attention_dropout_(plan_.attention_dropout),
        feed_forward_dropout_(plan_.feed_forward_dropout) {
    const auto make = [&](std::optional<PlannedNorm>& norm, const std::string& module) {
      if (!module.empty()) norm.emplace(scope / module, plan.width, plan.norm);
    };
    // In the order of what Transformers' modules are: of two norms both stand before the feed-forward layer.
    const bool four = !plan_.after_attention.empty();
    if (!plan_.attends) {
      // no part that sees other tokens
    } else if (plan_.mixer) {
      mixer_ = plan_.mixer->make(scope / plan_.mixer->module, next.state);
      next.state += plan_.mixer->states;
    } else if (plan_.attention.latent) {
      latent_attention_.emplace(scope, plan, plan_.attention, next.attention++);
    } else {
      attention_.emplace(scope, plan, plan_.attention, next.attention++, number);
    }
    make(before_attention_, plan_.before_attention);
    make(after_attention_, plan_.after_attention);
    if (!four) make(before_feed_forward_, plan_.before_feed_forward);
    if (plan_.feeds && plan_.has_experts) {
      const std::string& own = plan.experts->names.block;
      experts_.emplace(own.empty() ? scope : scope / own, *plan.experts);
    }
    if (plan_.feeds && (!plan_.has_experts || plan_.feed_forward_too))
      feed_forward_.emplace(scope, plan_.feed_forward, plan.width, plan.deviation);
    if (four) make(before_feed_forward_, plan_.before_feed_forward);
    make(after_feed_forward_, plan_.after_feed_forward);
    make(before_experts_, plan_.before_experts), make(after_experts_, plan_.after_experts);
    make(after_beside_, plan_.after_beside);
    if (plan.layer_inputs) layer_input_.emplace(scope, plan, *plan.layer_inputs, static_cast<int64_t>(number));
    if (!plan_.scale.empty()) scale_ = scope.buffer(plan_.scale, {DType::kFloat32, {1}}, Initial::ones());
  }

  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, std::vector<Tensor>* router,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    Tensor made = mixed(x, inputs, router, context);
    if (layer_input_) made = (*layer_input_)(made, inputs.beside, context);
    return scale_ ? made * cast(scale_->value, made.dtype()) : made;
  }

 private:
  Tensor mixed(const Tensor& x, const AttentionInputs& inputs, std::vector<Tensor>* router,
               ForwardContext& context) const {
    if (!plan_.attends) return x + fed(normed(before_feed_forward_, x, context), x, router, context);
    const Tensor read = normed(before_attention_, x, context);
    const Tensor seen = mixer_       ? mixer_(read, inputs.in.attention_mask, context)
                        : attention_ ? (*attention_)(read, inputs, context)
                                     : (*latent_attention_)(read, inputs, context);
    const Tensor attended = added(after_attention_, attention_dropout_(seen, context), context);
    if (!plan_.feeds) return x + attended;
    if (plan_.parallel)
      return x + attended + fed(before_feed_forward_ ? (*before_feed_forward_)(x, context) : read, x, router, context);
    const Tensor h = x + attended;
    return h + fed(normed(before_feed_forward_, h, context), h, router, context);
  }

  // What the feed-forward layer makes of y, and experts of it or of h, which stands before its norm.
  Tensor fed(const Tensor& y, const Tensor& h, std::vector<Tensor>* router, ForwardContext& context) const {
    Tensor made;
    if (feed_forward_) made = normed(after_beside_, (*feed_forward_)(y, context), context);
    if (experts_) {
      Tensor chosen = before_experts_ ? (*experts_)((*before_experts_)(h, context), context, router, h)
                                      : (*experts_)(y, context, router);
      chosen = normed(after_experts_, chosen, context);
      made = made.defined() ? chosen + made : chosen;
    }
    return added(after_feed_forward_, feed_forward_dropout_(made, context), context);
  }

  static Tensor normed(const std::optional<PlannedNorm>& norm, const Tensor& x, ForwardContext& context) {
    return norm ? (*norm)(x, context) : x;
  }
  // What is added to x.
  Tensor added(const std::optional<PlannedNorm>& norm, const Tensor& y, ForwardContext& context) const {
    const Tensor made = normed(norm, y, context);
    return plan_.residual_multiplier == 1 ? made : made * plan_.residual_multiplier;
  }

  std::string path_;
  BlockPlan plan_;
  StateMixer mixer_;
  std::optional<PlannedAttention> attention_;
  std::optional<LatentAttention> latent_attention_;
  std::optional<PlannedNorm> before_attention_, after_attention_, before_feed_forward_, after_feed_forward_;
  std::optional<PlannedNorm> before_experts_, after_experts_, after_beside_;
  std::optional<PlannedFeedForward> feed_forward_;
  std::optional<MixtureOfExperts> experts_;
  std::optional<LayerVectorOfBlock> layer_input_;
  std::shared_ptr<Parameter> scale_;  // null: none
  Dropout attention_dropout_, feed_forward_dropout_;
};

// Of more sections than axes, which take turns: each pair's angles are those of its own axis.
RotaryAngles angles_in_turn(const RotaryEmbedding& rotary, const std::vector<int64_t>& sections,
                            const Tensor& position_ids) {
  const int64_t axes = position_ids.dim(0);
  std::vector<int64_t> of_pair;
  for (size_t i = 0; i < sections.size(); ++i)
    of_pair.insert(of_pair.end(), static_cast<size_t>(sections[i]), static_cast<int64_t>(i) % axes);
  const auto pairs = static_cast<int64_t>(of_pair.size());
  const Tensor axis_of_pair = Tensor::from(of_pair, {1, 1, 1, pairs});
  const auto positions = [&](int64_t axis) { return squeeze(slice(position_ids, 0, axis, axis + 1), 0); };
  RotaryAngles result = rotary(positions(0));
  for (int64_t axis = 1; axis < axes; ++axis) {
    const RotaryAngles own = rotary(positions(axis));
    const Tensor is_own = equal(axis_of_pair, full({1, 1, 1, pairs}, static_cast<double>(axis), DType::kInt64));
    result = {select(is_own, own.cosine, result.cosine), select(is_own, own.sine, result.sine)};
  }
  return result;
}

// position_ids [B or 1, T], or [axes, B, T] where parts of each head turn by numbers of their own.
RotaryAngles planned_angles(const RotaryEmbedding& rotary, const RotaryPlan& plan, const Tensor& position_ids) {
  if (position_ids.rank() == 2) return rotary(position_ids);
  const auto axes = static_cast<int64_t>(plan.sections.size());
  if (position_ids.rank() == 3 && position_ids.dim(0) > 1 && axes > position_ids.dim(0) &&
      axes % position_ids.dim(0) == 0)
    return angles_in_turn(rotary, plan.sections, position_ids);
  if (position_ids.rank() != 3 || position_ids.dim(0) != axes)
    fail("position_ids: expected [batch, length]{}, found {}",
         axes > 0 ? fmt::format(" or [{}, batch, length]", axes) : "", to_string(position_ids.shape()));
  std::vector<Tensor> cosines, sines;
  int64_t first = 0;
  for (int64_t axis = 0; axis < axes; ++axis) {
    const RotaryAngles all = rotary(squeeze(slice(position_ids, 0, axis, axis + 1), 0));
    const int64_t end = first + plan.sections[static_cast<size_t>(axis)];
    cosines.push_back(slice(all.cosine, 3, first, end));
    sines.push_back(slice(all.sine, 3, first, end));
    first = end;
  }
  return {concatenate(cosines, 3), concatenate(sines, 3)};
}

class PlannedDecoder : public Decoder {
 public:
  PlannedDecoder(DecoderPlan plan, const Scope& scope)
      : plan_(std::move(plan)),
        tokens_(scope / plan_.embeddings, plan_.vocabulary, plan_.width, plan_.deviation, plan_.padding.value_or(-1)),
        norm_(scope / plan_.final_norm, plan_.width, plan_.norm),
        dropout_(plan_.embedding_dropout) {
    if (plan_.positions) positions_.emplace(scope, plan_.width, plan_.deviation, *plan_.positions);
    if (!plan_.embedding_norm.empty()) embedding_norm_.emplace(scope / plan_.embedding_norm, plan_.width, plan_.norm);
    CacheNumbers next;
    for (size_t i = 0; i < plan_.blocks.size(); ++i)
      blocks_.emplace_back(scope / plan_.stack / static_cast<int64_t>(i), plan_, i, next);
    if (next.state > 0) plan_.traits.texts_in_rows = false;
    for (const BlockPlan& block : plan_.blocks) shares_keys_ = shares_keys_ || block.attention.keys_of;
    if (plan_.layer_inputs) layer_inputs_.emplace(scope, plan_, *plan_.layer_inputs);
    for (const RotaryPlan& rotary : plan_.rotary) rotary_.emplace_back(rotary.options);
    if (plan_.alibi) alibi_.emplace(*plan_.alibi);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const Positions places = !plan_.takes_positions ? Positions::kNone
                             : plan_.counts_padding ? Positions::kInOrder
                                                    : Positions::kByMask;
    DecoderInputs in = decoder_inputs(inputs, context, places, plan_.traits.max_positions);
    const bool both_sides = plan_.bidirectional && in.causal;  // else a mask of four axes says all
    if (plan_.bidirectional) {
      if (context.cache)
        fail(ErrorKind::kUnsupported,
             "this model sees the tokens to come (bidirectional attention): it does not write");
      in.causal = false;
    }
    AttentionInputs pass{in, in.bias, {}, both_sides};
    if (alibi_) {
      pass.bias = (*alibi_)(in);
      if (in.bias.defined()) pass.bias = pass.bias + in.bias;
    }
    if (const SeesTogether together = sees_together(inputs); together.groups.defined())
      for (const BlockPlan& block : plan_.blocks) {
        if (block.mixer || block.attention.latent || alibi_ || plan_.bidirectional || shares_keys_)
          fail(ErrorKind::kUnsupported, "tokens that see each other beside such layers are not carried out");
        const int64_t window = block.attention.window;
        if (!pass.together.contains(window)) pass.together[window] = bias_of(together, in, window, context);
      }
    const Tensor x = read(inputs, in, context);
    for (size_t i = 0; i < rotary_.size(); ++i)
      pass.angles.push_back(planned_angles(rotary_[i], plan_.rotary[i], in.position_ids));
    if (layer_inputs_) pass.beside = (*layer_inputs_)(in.input_ids, x, context);
    std::vector<KeysAndValues> kept(plan_.blocks.size());
    if (shares_keys_) pass.kept = &kept;
    const bool balances = plan_.experts && plan_.experts->auxiliary_weight != 0;
    if (plan_.experts && plan_.experts->jitter != 0 && context.training)
      fail(ErrorKind::kUnsupported, "config.json: router_jitter_noise = {} is not carried out in training; only 0 is",
           plan_.experts->jitter);
    if (balances && context.gradient_checkpointing && context.training)
      fail("gradient checkpointing is not offered together with output_router_logits");
    std::vector<Tensor> router;
    const Tensor added = inputs.find(kAddedBehindBlocks);
    DecoderOutput output =
        through_decoder(blocks_, dropout_(x, context), context, norm_, [&](const PlannedBlock& block, const Tensor& y) {
          const Tensor made = block(y, pass, balances ? &router : nullptr, context);
          const int64_t first = (&block - blocks_.data()) * plan_.width;
          if (!added.defined() || first >= added.dim(2)) return made;
          return made + cast(slice(added, 2, first, first + plan_.width), made.dtype());
        });
    output.router_logits = std::move(router);
    return output;
  }

  Tensor embed(const Tensor& input_ids, ForwardContext& context) const override {
    const Tensor x = tokens_(input_ids, context);
    return plan_.token_scale == 1 ? x : x * plan_.token_scale;
  }

  const DecoderPlan& plan() const { return plan_; }
  DecoderTraits traits() const override { return plan_.traits; }
  const Embedding& word_embeddings() const override { return tokens_; }
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names{"input_ids", "attention_mask"};
    if (plan_.takes_types) names.emplace_back("token_type_ids");
    if (plan_.takes_positions) names.emplace_back("position_ids");
    if (!plan_.layer_inputs) names.emplace_back("inputs_embeds");  // rows say no token
    return names;
  }
  Tensor auxiliary_loss(const DecoderOutput& output, const NamedTensors& inputs) const override {
    if (output.router_logits.empty()) return {};
    return load_balancing_loss(output.router_logits, plan_.experts->experts_per_token, inputs.find("attention_mask"));
  }

 private:
  // What the first layer reads, but for dropout.
  Tensor read(const NamedTensors& inputs, const DecoderInputs& in, ForwardContext& context) const {
    Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : embed(in.input_ids, context);
    if (plan_.input_scale != 1) x = x * plan_.input_scale;
    if (positions_) x = x + cast((*positions_)(in.position_ids, context), x.dtype());
    if (const Tensor types = inputs.find("token_type_ids"); plan_.takes_types && types.defined())
      x = x + tokens_(types, context);
    return embedding_norm_ ? (*embedding_norm_)(x, context) : x;
  }

  DecoderPlan plan_;
  Embedding tokens_;
  std::optional<PositionVectors> positions_;
  std::optional<PlannedNorm> embedding_norm_;
  std::vector<PlannedBlock> blocks_;
  PlannedNorm norm_;
  std::vector<RotaryEmbedding> rotary_;
  std::optional<PositionBias> alibi_;
  std::optional<LayerVectors> layer_inputs_;
  bool shares_keys_ = false;
  Dropout dropout_;
};

// The sections of a head's pairs are all of them.
void check_sections(const RotaryPlan& rotary) {
  if (rotary.sections.empty()) return;
  int64_t sum = 0;
  for (const int64_t pairs : rotary.sections) {
    if (pairs < 0 || pairs > 1 << 16) fail("config.json: mrope_section: expected numbers of pairs, found {}", pairs);
    sum += pairs;
  }
  if (rotary.options.width % 2 != 0 || sum != rotary.options.width / 2)
    fail("config.json: mrope_section: expected a sum of {}, half of a head's numbers, found {}",
         rotary.options.width / 2, sum);
}

void check_latent(const AttentionPlan& a) {
  constexpr int64_t kWidest = 1 << 20;
  const LatentPlan& latent = *a.latent;
  for (const auto& [name, number, least] : {std::tuple{"q_lora_rank", latent.query_rank, int64_t{0}},
                                            {"kv_lora_rank", latent.rank, int64_t{1}},
                                            {"qk_nope_head_dim", latent.plain, int64_t{1}},
                                            {"qk_rope_head_dim", latent.turning, int64_t{1}},
                                            {"v_head_dim", latent.value_size, int64_t{1}}})
    if (number < least || number > kWidest)
      fail("config.json: {}: expected {} to {}, found {}", name, least, kWidest, number);
  if (a.heads != a.key_value_heads)
    fail(
        "config.json: num_key_value_heads: expected {} (num_attention_heads), as keys are made of latent vectors, "
        "found {}",
        a.heads, a.key_value_heads);
  if (!a.sinks.empty()) fail("sinks are not carried out where keys are made of latent vectors");
}

// The block whose keys and values block `number` reads.
void check_shared_keys(const DecoderPlan& plan, size_t number) {
  const AttentionPlan& a = plan.blocks[number].attention;
  const size_t of = *a.keys_of;
  if (of >= number || !plan.blocks[of].attends || plan.blocks[of].mixer || plan.blocks[of].attention.latent ||
      plan.blocks[of].attention.keys_of || plan.blocks[number].mixer || a.latent || a.fused)
    fail("layer {} cannot read the keys and values of layer {}", number, of);
  const AttentionPlan& other = plan.blocks[of].attention;
  if (other.head_size != a.head_size || other.key_value_heads != a.key_value_heads)
    fail("config.json: layer {} has {} heads of {} for keys, but reads those of layer {}, which has {} of {}", number,
         a.key_value_heads, a.head_size, of, other.key_value_heads, other.head_size);
}

void check_layer_inputs(const LayerInputsPlan& inputs, size_t layers) {
  constexpr int64_t kWidest = 1 << 20, kMostRows = 1 << 24;
  if (inputs.width < 1 || inputs.width > kWidest || inputs.vocabulary < 1 || inputs.vocabulary > kMostRows)
    fail("config.json: a table of {} rows of {} numbers a layer: expected 1 to {} of 1 to {}", inputs.vocabulary,
         inputs.width, kMostRows, kWidest);
  if (layers == 0) fail("config.json: vectors of layers, but no layers");
}

void check_plan(const DecoderPlan& plan) {
  constexpr int64_t kMostHeads = 1 << 16;
  if (plan.layer_inputs) check_layer_inputs(*plan.layer_inputs, plan.blocks.size());
  for (size_t number = 0; number < plan.blocks.size(); ++number)
    if (plan.blocks[number].attention.keys_of) check_shared_keys(plan, number);
  for (const RotaryPlan& rotary : plan.rotary) check_sections(rotary);
  for (const BlockPlan& block : plan.blocks) {
    if (!block.attends && !block.feeds) fail("config.json: a layer without any part");
    const AttentionPlan& a = block.attention;
    if (a.heads < 1 || a.key_value_heads < 1 || a.heads > kMostHeads || a.heads % a.key_value_heads != 0)
      fail("config.json: num_attention_heads {} is not divisible by num_key_value_heads {}", a.heads,
           a.key_value_heads);
    if (a.head_size < 1) fail("config.json: head_dim: expected a number above 0, found {}", a.head_size);
    if (a.fused && a.fused->layout == FusedPlan::Layout::kBlocks &&
        (a.fused->blocks < 1 || a.heads * a.head_size % a.fused->blocks != 0 || a.heads != a.key_value_heads))
      fail("config.json: {} numbers of queries do not lie in {} blocks", a.heads * a.head_size, a.fused->blocks);
    const int64_t turning = a.latent ? a.latent->turning : a.head_size;
    if (a.rotary && 2 * ((plan.rotary[*a.rotary].options.width + 1) / 2) > turning)
      fail("config.json: {} numbers turn, but a head has {}", plan.rotary[*a.rotary].options.width, turning);
    if (a.latent) check_latent(a);
  }
}

}  // namespace

std::unique_ptr<Decoder> make_planned_decoder(DecoderPlan plan, const Scope& scope) {
  check_plan(plan);
  return std::make_unique<PlannedDecoder>(std::move(plan), scope);
}

const DecoderPlan* plan_of(const Decoder& body) {
  const auto* planned = dynamic_cast<const PlannedDecoder*>(&body);
  return planned ? &planned->plan() : nullptr;
}

}  // namespace transom
