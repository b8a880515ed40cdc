// SPDX-License-Identifier: Apache-2.0
#include "sharding/tensor_parallel_plan.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace transom {
namespace {

enum class Style { kColwise, kRowwise, kColwiseHeads, kColwiseKeyHeads, kRowwiseHeads, kVocabulary };

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
    // BERT, RoBERTa, ELECTRA, ViT, DINOv2
    {"attention.self.query", Style::kColwiseHeads},
    {"attention.self.key", Style::kColwiseKeyHeads},
    {"attention.self.value", Style::kColwiseKeyHeads},
    {"attention.attention.query", Style::kColwiseHeads},
    {"attention.attention.key", Style::kColwiseKeyHeads},
    {"attention.attention.value", Style::kColwiseKeyHeads},
    {"attention.output.dense", Style::kRowwiseHeads},
    // DistilBERT, T5
    {"attention.q_lin", Style::kColwiseHeads},
    {"attention.k_lin", Style::kColwiseKeyHeads},
    {"attention.v_lin", Style::kColwiseKeyHeads},
    {"attention.out_lin", Style::kRowwiseHeads},
    {"Attention.q", Style::kColwiseHeads},
    {"Attention.k", Style::kColwiseKeyHeads},
    {"Attention.v", Style::kColwiseKeyHeads},
    {"Attention.o", Style::kRowwiseHeads},
    // Between attentions
    {"mlp.gate_proj", Style::kColwise},
    {"mlp.up_proj", Style::kColwise},
    {"mlp.down_proj", Style::kRowwise},
    {"mlp.c_fc", Style::kColwise},
    {"mlp.c_proj", Style::kRowwise},
    {"mlp.dense_h_to_4h", Style::kColwise},
    {"mlp.dense_4h_to_h", Style::kRowwise},
    {"mlp.fc1", Style::kColwise},
    {"mlp.fc2", Style::kRowwise},
    {"fc1", Style::kColwise},
    {"fc2", Style::kRowwise},
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
    {"wte", Style::kVocabulary},
    {"embed_in", Style::kVocabulary},
    {"shared", Style::kVocabulary},
    {"lm_head", Style::kVocabulary},
    {"embed_out", Style::kVocabulary},
};
constexpr Line kExperts[] = {
    {"w1", Style::kColwise},        {"w3", Style::kColwise},      {"w2", Style::kRowwise},
    {"gate_proj", Style::kColwise}, {"up_proj", Style::kColwise}, {"down_proj", Style::kRowwise},
};

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

}  // namespace

namespace {

// Along the axis tp, and experts that are cut within.
Placement cut_within(const ProcessMesh& mesh, const Config& config, const Parameter& parameter) {
  const Shape& shape = parameter.value.shape();
  const Placement whole = replicated(shape.size());
  const std::string_view name = parameter.name;
  const size_t dot = name.rfind('.');
  if (dot == name.npos || shape.empty() || shape.size() > 2) return whole;
  const std::string_view module = name.substr(0, dot), leaf = name.substr(dot + 1);
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

  const int64_t heads = first_of(
      config,
      {"num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads", "encoder_attention_heads"},
      0);
  const int64_t key_heads = config.get_int("num_key_value_heads", heads);
  Style style = found->style;
  // The same names serve other widths in some families.
  const bool of_heads =
      style == Style::kColwiseHeads || style == Style::kColwiseKeyHeads || style == Style::kRowwiseHeads;
  if (of_heads && (heads <= 0 || key_heads <= 0)) return whole;
  const bool shares = key_heads < mesh.size(axis);  // too few heads of keys: they stay whole, if one serves all queries
  if (of_heads && shares && key_heads != 1) return whole;
  if (style == Style::kColwiseKeyHeads && shares) return whole;
  const bool rowwise = style == Style::kRowwise || style == Style::kRowwiseHeads;
  if (rowwise && bias) return whole;
  const bool transposed = parameter.use == Parameter::Use::kTransposedLinear;
  const size_t dimension = shape.size() == 1 ? 0 : (rowwise != transposed ? 1 : 0);
  if (style == Style::kVocabulary && (bias ? shape.size() != 1 : shape.size() != 2)) return whole;
  const int64_t extent = shape[dimension];
  const int64_t units = !of_heads ? extent : shares ? heads : key_heads;
  if (extent % units != 0) return whole;
  const Cut cut = make_cut(mesh, {axis}, units, extent / units);
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
  const int64_t experts = first_of(config, {"num_local_experts"}, 0);
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
