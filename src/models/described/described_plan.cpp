// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "models/described/described_fields.h"
#include "models/described/described_mixer.h"
#include "models/described/described_rotary.h"
#include "models/described/family_schema.h"

namespace transom {
namespace {

constexpr int64_t kMostLayers = 1 << 16;

// A file, the values of its options for a configuration, and the sections of both.
struct Source {
  const Json& file;
  OptionValues values;
  OptionSection section(std::string_view path, std::optional<int64_t> layer = {}) const {
    return {file, values, path, layer};
  }
};

NormPlan described_norm(const Source& source) {
  const OptionSection norm = source.section("decoder.norm");
  const bool layer = norm.text("kind") == "layer";
  return {.kind = layer ? NormPlan::Kind::kLayer : NormPlan::Kind::kRms,
          .epsilon = norm.real("epsilon"),
          .one_plus = norm.flag("one_plus"),
          .weight = norm.flag("weight"),
          .bias = layer && norm.flag("bias")};
}

std::optional<FusedPlan> described_fused(const Source& source) {
  using Layout = FusedPlan::Layout;
  const OptionSection fused = source.section("decoder.attention.fused");
  if (!fused.holds()) return std::nullopt;
  const std::string layout = fused.text("layout");
  return FusedPlan{.layout = layout == "parts"    ? Layout::kParts
                             : layout == "groups" ? Layout::kGroups
                                                  : Layout::kBlocks,
                   .module = fused.text("module"),
                   .blocks = fused.whole("blocks")};
}

std::optional<HeadNormsPlan> described_head_norms(const Source& source, int64_t layer, const NormPlan& norm) {
  using Over = HeadNormsPlan::Over;
  const OptionSection norms = source.section("decoder.attention.head_norms", layer);
  if (!norms.holds()) return std::nullopt;
  const std::string over = norms.text("over");
  HeadNormsPlan plan{.over = over == "head"           ? Over::kHead
                             : over == "all_heads"    ? Over::kAllHeads
                             : over == "head_weights" ? Over::kHeadWeights
                                                      : Over::kHeadModules,
                     .query = norms.text("query"),
                     .key = norms.text("key"),
                     .norm = norm,
                     .after_rotary = norms.flag("after_rotary")};
  if (!norms.is_null("bias")) plan.norm.bias = norm.kind == NormPlan::Kind::kLayer && norms.flag("bias");
  if (!norms.is_null("epsilon")) plan.norm.epsilon = norms.real("epsilon");
  return plan;
}

int64_t module_count(int64_t number, const char* name) {
  if (number < 1 || number > kMostLayers)
    fail("decoder.attention.{}: expected 1 to {}, found {}", name, kMostLayers, number);
  return number;
}

std::optional<LatentPlan> described_latent(const Source& source) {
  const OptionSection latent = source.section("decoder.attention.latent");
  if (!latent.holds()) return std::nullopt;
  return LatentPlan{.query_rank = latent.whole("query_rank"),
                    .rank = latent.whole("rank"),
                    .plain = module_count(latent.whole("plain"), "latent.plain"),
                    .turning = module_count(latent.whole("turning"), "latent.turning"),
                    .value_size = latent.whole("value_size"),
                    .norm_epsilon = latent.real("epsilon")};
}

AttentionPlan described_attention(const Source& source, int64_t layer, const NormPlan& norm) {
  const OptionSection attention = source.section("decoder.attention", layer);
  AttentionPlan plan{.heads = module_count(attention.whole("heads"), "heads"),
                     .key_value_heads = module_count(attention.whole("key_value_heads"), "key_value_heads"),
                     .head_size = module_count(attention.whole("head_size"), "head_size"),
                     .query = attention.text("query"),
                     .key = attention.text("key"),
                     .value = attention.text("value"),
                     .output = attention.text("output"),
                     .fused = described_fused(source),
                     .bias = attention.flag("bias"),
                     .output_bias = attention.flag("output_bias"),
                     .gated = attention.flag("gated"),
                     .soft_cap = attention.real("soft_cap"),
                     .clip = attention.real("clip"),
                     .window = attention.whole("window"),
                     .head_norms = described_head_norms(source, layer, norm),
                     .dropout = attention.real("dropout")};
  plan.sinks = attention.text("sinks");
  plan.value_norm = attention.flag("value_norm"), plan.values_are_keys = attention.flag("values_are_keys");
  plan.latent = described_latent(source);
  if (plan.latent) plan.head_size = plan.latent->plain + plan.latent->turning;
  plan.scale =
      attention.is_null("scale") ? 1 / std::sqrt(static_cast<double>(plan.head_size)) : attention.real("scale");
  if (plan.latent && source.section("decoder.attention.latent").flag("scaled"))
    plan.scale *= scale_of_stretched_scores(source.values);
  if (plan.window < 0) fail("decoder.attention.window: expected a number from 0, found {}", plan.window);
  if (const OptionSection growth = source.section("decoder.attention.growth"); growth.holds())
    plan.growth = QueryGrowthPlan{.beta = growth.real("beta"), .length = growth.real("length")};
  return plan;
}

FeedForwardPlan described_feed_forward(const Source& source, int64_t layer) {
  const OptionSection section = source.section("decoder.feed_forward", layer);
  return {.gated = section.flag("gated"),
          .gate = section.text("gate"),
          .up = section.text("up"),
          .down = section.text("down"),
          .fused = section.text("fused"),
          .width = section.whole("width"),
          .activation = section.text("activation"),
          .bias = section.flag("bias"),
          .activation_dropout = section.real("activation_dropout")};
}

RouterPlan described_router(const OptionSection& experts, const NormPlan& norm) {
  using Scores = RouterPlan::Scores;
  const std::string scores = experts.text("scores");
  return {.scores = scores == "softmax"   ? Scores::kSoftmax
                    : scores == "sigmoid" ? Scores::kSigmoid
                                          : Scores::kSoftmaxOfChosen,
          .module = experts.text("router"),
          .bias = experts.flag("router_bias"),
          .wide = experts.flag("wide_router"),
          .correction = experts.text("correction"),
          .correction_beside = experts.flag("correction_beside"),
          .groups = experts.whole("groups"),
          .seen_groups = experts.whole("seen_groups"),
          .two_largest = experts.flag("two_largest"),
          .epsilon = experts.real("epsilon"),
          .factor = experts.real("factor"),
          .scale = experts.text("router_scale"),
          .expert_scale = experts.text("expert_scale"),
          .norm_epsilon = norm.epsilon};
}

std::optional<ExpertsConfig> described_experts(const Source& source, const DecoderPlan& plan, int64_t layers) {
  const OptionSection experts = source.section("decoder.experts", 0);
  bool somewhere = false;
  for (int64_t layer = 0; layer < layers; ++layer)
    somewhere = somewhere || source.section("decoder.experts", layer).holds();
  if (!somewhere) return std::nullopt;
  ExpertsConfig config{.experts = experts.whole("count"),
                       .experts_per_token = experts.whole("per_token"),
                       .width = plan.width,
                       .intermediate_width = experts.whole("width"),
                       .activation = source.section("decoder.feed_forward", 0).text("activation"),
                       .deviation = plan.deviation,
                       .auxiliary_weight = experts.real("balance"),
                       .jitter = experts.real("jitter")};
  config.names = {.block = experts.text("module"),
                  .gate = experts.text("gate"),
                  .down = experts.text("down"),
                  .up = experts.text("up")};
  config.shares_sum_to_one = experts.flag("shares_sum_to_one");
  config.shared_width = experts.whole("shared_width");
  config.shared = experts.text("shared"), config.shared_gate = experts.flag("shared_gate");
  config.shared_bias = experts.flag("shared_bias");
  config.latent_width = experts.whole("latent_width"), config.latent_bias = experts.flag("latent_bias");
  config.biases = experts.flag("biases");
  if (!experts.is_null("limit")) config.gate = {.limit = experts.real("limit"), .sharpness = experts.real("sharpness")};
  config.router = described_router(experts, plan.norm);
  if (config.experts < 1 || config.experts > kMostLayers || config.experts_per_token < 1 ||
      config.experts_per_token > config.experts)
    fail("decoder.experts: {} of {} experts cannot be chosen", config.experts_per_token, config.experts);
  return config;
}

// The block whose keys and values a layer reads: the last one before it of its kind that has its own. `own` are those
// blocks by kind, of the layers before this one; this one is added.
std::optional<size_t> described_sharing(const Source& source, int64_t layer, std::map<std::string, size_t>& own) {
  const Json* section = json_at(source.file, "decoder.attention.shared");
  if (!section || !section->is_object()) return std::nullopt;
  const OptionSection shared = source.section("decoder.attention.shared", layer);
  const std::string kind = shared.text("kind");
  if (!shared.holds()) {
    own[kind] = static_cast<size_t>(layer);
    return std::nullopt;
  }
  if (const auto found = own.find(kind); found != own.end()) return found->second;
  fail("{}: layer {} reads the keys and values of a layer before it, but none of those is of its kind, {}",
       source.values.config().where(), layer, quoted(kind, 100));
}

std::optional<LayerInputsPlan> described_layer_inputs(const Source& source) {
  const OptionSection inputs = source.section("decoder.layer_inputs");
  if (!inputs.holds()) return std::nullopt;
  return LayerInputsPlan{.table = inputs.text("table"),
                         .projection = inputs.text("projection"),
                         .projection_norm = inputs.text("projection_norm"),
                         .gate = inputs.text("gate"),
                         .outward = inputs.text("outward"),
                         .norm = inputs.text("norm"),
                         .vocabulary = inputs.whole("vocabulary"),
                         .width = inputs.whole("width"),
                         .activation = source.section("decoder.feed_forward", 0).text("activation")};
}

BlockPlan described_block(const Source& source, int64_t layer, const DecoderPlan& plan) {
  const OptionSection decoder = source.section("decoder", layer), norms = source.section("decoder.norms", layer);
  BlockPlan block{.attention = described_attention(source, layer, plan.norm),
                  .mixer = described_mixer(source.file, source.values, layer, plan),
                  .feed_forward = described_feed_forward(source, layer),
                  .has_experts = plan.experts && source.section("decoder.experts", layer).holds(),
                  .feed_forward_too = source.section("decoder.experts", layer).flag("feed_forward_too"),
                  .attends = decoder.flag("attends"),
                  .feeds = decoder.flag("feeds"),
                  .before_experts = norms.text("before_experts"),
                  .after_experts = norms.text("after_experts"),
                  .after_beside = norms.text("after_beside"),
                  .before_attention = norms.text("before_attention"),
                  .after_attention = norms.text("after_attention"),
                  .before_feed_forward = norms.text("before_feed_forward"),
                  .after_feed_forward = norms.text("after_feed_forward"),
                  .scale = decoder.text("block_scale"),
                  .parallel = decoder.flag("parallel"),
                  .residual_multiplier = decoder.real("residual_multiplier"),
                  .attention_dropout = source.section("decoder.attention", layer).real("output_dropout"),
                  .feed_forward_dropout = source.section("decoder.feed_forward", layer).real("dropout")};
  return block;
}

std::optional<AlibiPlan> described_alibi(const Source& source, int64_t heads) {
  const OptionSection alibi = source.section("decoder.alibi");
  if (!alibi.holds()) return std::nullopt;
  return AlibiPlan{.heads = heads,
                   .largest = alibi.real("largest"),
                   .by_mask = alibi.flag("by_mask"),
                   .scale = alibi.real("scale"),
                   .rounded = alibi.flag("rounded")};
}

std::optional<PositionTable> described_positions(const Source& source) {
  const OptionSection positions = source.section("decoder.positions");
  if (!positions.holds()) return std::nullopt;
  PositionTable table{.offset = positions.whole("offset")};
  if (positions.text("kind") == "learned")
    table.module = positions.text("module"), table.rows = positions.whole("rows");
  if (!positions.is_null("zero_row")) table.zero_row = positions.whole("zero_row");
  return table;
}

std::optional<int64_t> described_padding(const OptionSection& embeddings, int64_t vocabulary) {
  if (embeddings.is_null("padding")) return std::nullopt;
  const int64_t padding = embeddings.whole("padding");
  return padding < 0 ? padding + vocabulary : padding;  // as PyTorch counts it
}

DecoderTraits described_traits(const Source& source, const DecoderPlan& plan) {
  const OptionSection head = source.section("decoder.head");
  return {.vocab_size = plan.vocabulary,
          .width = plan.width,
          .tie_word_embeddings = head.flag("tied"),
          .initializer_range = plan.deviation,
          .logit_multiplier = head.real("multiplier"),
          .logit_soft_cap = head.real("soft_cap"),
          .head_bias = head.flag("bias"),
          .head = head.text("module"),
          .token_head = head.text("token_head"),
          .pad_token_id = plan.padding,
          .max_positions = source.section("decoder").whole("max_positions"),
          .auxiliary_weight = plan.experts ? plan.experts->auxiliary_weight : 0};
}

}  // namespace

DecoderPlan described_plan(const Json& file, const Config& config) {
  const Source source{file, {file, config}};
  check_described_fields(file, source.values);
  const OptionSection decoder = source.section("decoder"), embeddings = source.section("decoder.embeddings");
  DecoderPlan plan{.embeddings = embeddings.text("module"),
                   .stack = decoder.text("stack"),
                   .final_norm = decoder.text("final_norm"),
                   .vocabulary = decoder.whole("vocabulary"),
                   .width = decoder.whole("width"),
                   .deviation = decoder.real("deviation"),
                   .token_scale = embeddings.real("token_scale"),
                   .input_scale = embeddings.real("input_scale"),
                   .embedding_norm = embeddings.text("norm"),
                   .embedding_dropout = embeddings.real("dropout"),
                   .norm = described_norm(source),
                   .counts_padding = decoder.flag("counts_padding"),
                   .takes_positions = decoder.flag("takes_positions"),
                   .takes_types = decoder.flag("takes_types")};
  plan.padding = described_padding(embeddings, plan.vocabulary);
  const int64_t layers = decoder.whole("layers");
  if (layers < 0 || layers > kMostLayers) fail("decoder.layers: expected 0 to {}, found {}", kMostLayers, layers);
  plan.experts = described_experts(source, plan, layers);
  std::map<std::string, size_t> own_keys;
  for (int64_t layer = 0; layer < layers; ++layer) {
    BlockPlan block = described_block(source, layer, plan);
    block.attention.keys_of = described_sharing(source, layer, own_keys);
    const int64_t turning = block.attention.latent ? block.attention.latent->turning : block.attention.head_size;
    if (const auto rotary = described_rotary(file, source.values, layer, turning)) {
      const auto known = std::find(plan.rotary.begin(), plan.rotary.end(), *rotary);
      block.attention.rotary = static_cast<size_t>(known - plan.rotary.begin());
      if (known == plan.rotary.end()) plan.rotary.push_back(*rotary);
    }
    plan.blocks.push_back(std::move(block));
  }
  plan.alibi = described_alibi(source, plan.blocks.empty() ? 1 : plan.blocks[0].attention.heads);
  plan.positions = described_positions(source);
  plan.layer_inputs = described_layer_inputs(source);
  plan.traits = described_traits(source, plan);
  return plan;
}

}  // namespace transom
