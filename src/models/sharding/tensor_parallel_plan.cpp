// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/tensor_parallel_plan.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "models/records.h"

namespace transom {
namespace {

// kColwiseTwo joins two layers of one width, kColwiseJoinedHeads those of queries, keys and values.
enum class Style {
  kColwise,
  kRowwise,
  kColwiseHeads,
  kColwiseKeyHeads,
  kColwiseJoinedHeads,
  kColwiseTwo,
  kRowwiseHeads,
  kVocabulary
};

// By the end of a module's name; the first that fits. Families share most names, and the sharding pass is right
// whatever is cut, so one plan serves all.
struct Line {
  std::string_view module;
  Style style;
};
constexpr Line kPlan[] = {
    // Attention: LLaMA and its kin, OPT, BART, Marian, Whisper, CLIP
    {"attn.q_proj", Style::kColwiseHeads},
    {"attn.k_proj", Style::kColwiseKeyHeads},
    {"attn.v_proj", Style::kColwiseKeyHeads},
    {"attn.o_proj", Style::kRowwiseHeads},
    {"attn.out_proj", Style::kRowwiseHeads},
    {"attn.q_b_proj", Style::kColwiseHeads},  // of latent vectors
    {"attn.kv_b_proj", Style::kColwiseHeads},
    // BERT, RoBERTa, ELECTRA, ViT, DINOv2
    {"attention.self.query", Style::kColwiseHeads},
    {"attention.self.key", Style::kColwiseKeyHeads},
    {"attention.self.value", Style::kColwiseKeyHeads},
    {"attention.attention.query", Style::kColwiseHeads},
    {"attention.attention.key", Style::kColwiseKeyHeads},
    {"attention.attention.value", Style::kColwiseKeyHeads},
    {"attention.output.dense", Style::kRowwiseHeads},
    // MPNet, DeBERTa
    {"attn.q", Style::kColwiseHeads},
    {"attn.k", Style::kColwiseKeyHeads},
    {"attn.v", Style::kColwiseKeyHeads},
    {"attn.o", Style::kRowwiseHeads},
    {"self.query_proj", Style::kColwiseHeads},
    {"self.key_proj", Style::kColwiseKeyHeads},
    {"self.value_proj", Style::kColwiseKeyHeads},
    {"self.pos_query_proj", Style::kColwiseHeads},
    {"self.pos_key_proj", Style::kColwiseKeyHeads},
    // DistilBERT, T5
    {"attention.q_lin", Style::kColwiseHeads},
    {"attention.k_lin", Style::kColwiseKeyHeads},
    {"attention.v_lin", Style::kColwiseKeyHeads},
    {"attention.out_lin", Style::kRowwiseHeads},
    {"Attention.q", Style::kColwiseHeads},
    {"Attention.k", Style::kColwiseKeyHeads},
    {"Attention.v", Style::kColwiseKeyHeads},
    {"Attention.o", Style::kRowwiseHeads},
    // ALBERT; GPT-NeoX and BLOOM, whose joined layer has queries, keys and values head by head
    {"attention.query", Style::kColwiseHeads},
    {"attention.key", Style::kColwiseKeyHeads},
    {"attention.value", Style::kColwiseKeyHeads},
    {"attention.query_key_value", Style::kColwiseHeads},
    {"self_attention.query_key_value", Style::kColwiseHeads},
    {"attention.dense", Style::kRowwiseHeads},
    {"self_attention.dense", Style::kRowwiseHeads},
    // Families that files describe: Persimmon and Phi, GPT-Neo
    {"attn.query_key_value", Style::kColwiseHeads},
    {"attn.dense", Style::kRowwiseHeads},
    {"attention.q_proj", Style::kColwiseHeads},
    {"attention.k_proj", Style::kColwiseKeyHeads},
    {"attention.v_proj", Style::kColwiseKeyHeads},
    {"attention.out_proj", Style::kRowwiseHeads},
    // GPT-2, GPTBigCode; Phi-3; ModernBERT
    {"attn.c_attn", Style::kColwiseJoinedHeads},
    {"attn.qkv_proj", Style::kColwiseJoinedHeads},
    {"attn.Wqkv", Style::kColwiseJoinedHeads},
    {"attn.c_proj", Style::kRowwiseHeads},
    {"attn.Wo", Style::kRowwiseHeads},
    // Between attentions
    {"mlp.gate_proj", Style::kColwise},
    {"mlp.up_proj", Style::kColwise},
    {"mlp.down_proj", Style::kRowwise},
    {"mlp.gate_up_proj", Style::kColwiseTwo},
    {"shared_expert.gate_proj", Style::kColwise},
    {"shared_expert.up_proj", Style::kColwise},
    {"shared_expert.down_proj", Style::kRowwise},
    {"mlp.Wi", Style::kColwiseTwo},
    {"mlp.Wo", Style::kRowwise},
    {"mlp.weights_in", Style::kColwiseTwo},
    {"mlp.weights_out", Style::kRowwise},
    {"mlp.c_fc", Style::kColwise},
    {"mlp.c_proj", Style::kRowwise},
    {"mlp.dense_h_to_4h", Style::kColwise},
    {"mlp.dense_4h_to_h", Style::kRowwise},
    {"mlp.fc_in", Style::kColwise},
    {"mlp.fc_out", Style::kRowwise},
    {"ffn.up_proj", Style::kColwise},
    {"ffn.down_proj", Style::kRowwise},
    {"mlp.fc1", Style::kColwise},
    {"mlp.fc2", Style::kRowwise},
    {"fc1", Style::kColwise},
    {"fc2", Style::kRowwise},
    {"ffn", Style::kColwise},
    {"ffn_output", Style::kRowwise},
    {"ffn.lin1", Style::kColwise},
    {"ffn.lin2", Style::kRowwise},
    {"intermediate.dense", Style::kColwise},
    {"output.dense", Style::kRowwise},
    {"DenseReluDense.wi", Style::kColwise},
    {"DenseReluDense.wi_0", Style::kColwise},
    {"DenseReluDense.wi_1", Style::kColwise},
    {"DenseReluDense.wo", Style::kRowwise},
    // Tables of tokens, whose heads are often the same parameter
    {"embed_tokens", Style::kVocabulary},
    {"word_embeddings", Style::kVocabulary},
    {"token_embedding", Style::kVocabulary},
    {"wte", Style::kVocabulary},
    {"embed_in", Style::kVocabulary},
    {"shared", Style::kVocabulary},
    {"lm_head", Style::kVocabulary},
    {"embed_out", Style::kVocabulary},
    {"proj_out", Style::kVocabulary},
};
constexpr Line kExperts[] = {
    {"w1", Style::kColwise},
    {"w3", Style::kColwise},
    {"w2", Style::kRowwise},
    {"gate_proj", Style::kColwise},
    {"up_proj", Style::kColwise},
    {"down_proj", Style::kRowwise},
    {"input_linear.gate", Style::kColwise},
    {"input_linear.up", Style::kColwise},
    {"output_linear", Style::kRowwise},
};

constexpr std::string_view kAdapterA = ".lora_A", kAdapterB = ".lora_B";

// The number of an expert in "model.layers.3.block_sparse_moe.experts.5.w1".
std::optional<int64_t> expert_of(std::string_view module) {
  constexpr std::string_view kExperts = "experts.";
  const size_t at = module.find(kExperts);
  if (at == module.npos) return std::nullopt;
  int64_t number = 0;
  const char* const begin = module.data() + at + kExperts.size();
  const auto [end, error] = std::from_chars(begin, module.data() + module.size(), number);
  if (error != std::errc() || end == module.data() + module.size() || *end != '.') return std::nullopt;
  return number;
}

bool ends_with_module(std::string_view name, std::string_view module) {
  if (!name.ends_with(module)) return false;
  if (name.size() == module.size()) return true;
  const char before = name[name.size() - module.size() - 1];
  // "self_attn.q_proj" ends with "attn.q_proj", "SelfAttention.q" with "Attention.q"; "xfc1" not with "fc1".
  return before == '.' || module.starts_with("attn.") || module.starts_with("Attention.");
}

int64_t first_of(const Config& config, std::initializer_list<const char*> names, int64_t otherwise) {
  for (const char* name : names)
    if (const int64_t value = config.get_int(name, 0); value > 0) return value;
  return otherwise;
}

struct Heads {
  int64_t queries, keys;  // 0: the family has none
};
// Those of one of a model's towers stand in a part of its own: "text_config" for "text_model.encoder.layers.0".
std::optional<Config> part_of_tower(const Config& config, std::string_view module) {
  constexpr std::string_view kTower = "_model";
  std::string_view tower = module.substr(0, module.find('.'));
  if (!tower.ends_with(kTower)) return std::nullopt;
  tower.remove_suffix(kTower.size());
  const std::string part = std::string(tower) + "_config";
  if (!config.has(part)) return std::nullopt;
  return config.get_object(part);
}
// Null: the family has no such flag.
const MultiQuery* multi_query_of(const Config& config) {
  const Family* family = find_family(config);
  return family && !family->weights.multi_query->flag.empty() ? &*family->weights.multi_query : nullptr;
}
Heads heads_of(const Config& config) {
  const int64_t heads = first_of(
      config,
      {"num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads", "encoder_attention_heads"},
      0);
  const MultiQuery* shared = multi_query_of(config);
  const bool multi_query = shared && config.get_bool(shared->flag, shared->otherwise);
  return {heads, multi_query ? 1 : config.get_int("num_key_value_heads", heads)};
}

// What is dealt of the columns or rows that a style cuts: one layer, or several that stand joined in one, each for
// itself. None: they are not of that style, or there are too few.
std::vector<CutUnits> dealt_parts(Style style, Heads heads, int64_t extent, int64_t processes) {
  const auto of_one = [&](int64_t units) {
    return extent % units == 0 ? std::vector<CutUnits>{{units, extent / units}} : std::vector<CutUnits>();
  };
  if (style == Style::kColwise || style == Style::kRowwise || style == Style::kVocabulary) return of_one(extent);
  if (style == Style::kColwiseTwo)
    return extent % 2 == 0 ? std::vector<CutUnits>(2, {extent / 2, 1}) : std::vector<CutUnits>();
  if (heads.queries <= 0 || heads.keys <= 0 || heads.queries % heads.keys != 0) return {};
  // Too few heads of keys: they stay whole, if one serves all queries.
  const bool shares = heads.keys < processes;
  if (shares && heads.keys != 1) return {};
  if (style != Style::kColwiseJoinedHeads) {
    if (style == Style::kColwiseKeyHeads && shares) return {};
    return of_one(shares ? heads.queries : heads.keys);
  }
  const int64_t all = heads.queries + 2 * heads.keys, head = extent / all, group = heads.queries / heads.keys;
  if (extent % all != 0) return {};
  // The one head of keys, and that of values, are made by columns, and gathered for attention.
  if (shares) return {{heads.queries, head}, {head, 1}, {head, 1}};
  return {{heads.keys, group * head}, {heads.keys, head}, {heads.keys, head}};
}

// Along the axis tp, and experts that are cut within.
Placement cut_within(const ProcessMesh& mesh, const Config& config, const Parameter& parameter) {
  const Shape& shape = parameter.value.shape();
  const Placement whole = replicated(shape.size());
  const std::string_view name = parameter.name;
  const size_t dot = name.rfind('.');
  if (dot == name.npos || shape.empty() || shape.size() > 2) return whole;
  std::string_view module = name.substr(0, dot);
  const std::string_view leaf = name.substr(dot + 1);
  // What an adapter adds to a layer is cut as the layer: B by columns of outputs, A by rows of inputs.
  const bool inward = module.ends_with(kAdapterA), outward = module.ends_with(kAdapterB);
  if (inward || outward) module.remove_suffix(kAdapterA.size());
  if (leaf != "weight" && leaf != "bias") return whole;
  const bool bias = leaf == "bias";

  const Line* found = nullptr;
  constexpr MeshAxis axis = MeshAxis::kTensor;
  if (module.find("experts.") != module.npos) {
    for (const Line& line : kExperts)
      if (!found && ends_with_module(module, line.module)) found = &line;
  }
  for (const Line& line : kPlan)
    if (!found && ends_with_module(module, line.module)) found = &line;
  if (!found || mesh.size(axis) == 1) return whole;

  Style style = found->style;
  const bool rowwise = style == Style::kRowwise || style == Style::kRowwiseHeads;
  if ((rowwise && (bias || outward)) || (!rowwise && inward)) return whole;
  const bool transposed = parameter.use == Parameter::Use::kTransposedLinear;
  const size_t dimension = shape.size() == 1 ? 0 : (rowwise != transposed ? 1 : 0);
  if (style == Style::kVocabulary && (outward || shape.size() != (bias ? 1 : 2))) return whole;
  const std::optional<Config> of_tower = part_of_tower(config, module);
  const Heads heads = heads_of(of_tower ? *of_tower : config);
  // With keys for each head they are joined head by head.
  if (style == Style::kColwiseJoinedHeads && multi_query_of(config) && heads.keys != 1) style = Style::kColwiseHeads;
  const std::vector<CutUnits> parts = dealt_parts(style, heads, shape[dimension], mesh.size(axis));
  if (parts.empty()) return whole;
  const Cut cut = make_joined_cut(mesh, {axis}, parts);
  if (!gives_all_a_part(mesh, cut)) return whole;
  Placement placement = whole;
  placement.dimensions[dimension] = {cut};
  return placement;
}

}  // namespace

Placement tensor_parallel_placement(const ProcessMesh& mesh, const Config& config, const Parameter& parameter) {
  Placement placement = cut_within(mesh, config, parameter);
  const int64_t processes = mesh.size(MeshAxis::kExpert);
  const std::optional<int64_t> expert = processes > 1 ? expert_of(parameter.name) : std::nullopt;
  if (!expert || placement.dimensions.empty()) return placement;
  const int64_t experts = first_of(config, {"num_local_experts", "num_experts"}, 0);
  if (experts < processes || *expert >= experts)
    fail(ErrorKind::kUsage, "ep_size {}: expected at most the number of experts, {}", processes, experts);
  // Whole on one process, but for what tp cuts of the other dimension.
  int64_t owner = 0;
  while (part_of({0, experts}, owner, processes).end <= *expert) ++owner;
  const size_t d = placement.dimensions[0].empty() ? 0 : placement.dimensions.size() - 1;
  if (placement.dimensions[d].empty())
    placement.dimensions[d] = {owned_cut(MeshAxis::kExpert, parameter.value.shape()[d], owner)};
  return placement;
}

}  // namespace transom
