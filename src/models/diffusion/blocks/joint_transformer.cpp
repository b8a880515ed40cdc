// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/joint_transformer.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "models/nn/attention/attention.h"

namespace transom {
namespace {

constexpr int64_t kSines = 256;
constexpr double kJointEpsilon = 1e-6;

Tensor turned(const Tensor& x, const PlaceAngles& angles) {
  if (!angles.cosines.defined()) return x;
  const Shape whole = x.shape();
  const Tensor pairs = cast(reshape(x, {whole[0], whole[1], whole[2], whole[3] / 2, 2}), DType::kFloat32);
  const Tensor first = slice(pairs, 4, 0, 1), second = slice(pairs, 4, 1, 2);
  const Tensor made =
      concatenate({first * angles.cosines - second * angles.sines, second * angles.cosines + first * angles.sines}, 4);
  return cast(reshape(made, whole), x.dtype());
}

}  // namespace

JointCondition::JointCondition(const Scope& scope, int64_t pooled_width, int64_t width, bool has_guidance)
    : timestep_embedder_(scope / "timestep_embedder", kSines, width),
      text_embedder_(scope / "text_embedder", pooled_width, width) {
  if (has_guidance) guidance_embedder_.emplace(scope / "guidance_embedder", kSines, width);
}

Tensor JointCondition::sines(const Tensor& numbers, const Tensor& pooled) const {
  const int64_t B = pooled.dim(0);
  Tensor flat = reshape(numbers, {-1});
  if (flat.dim(0) != B && flat.dim(0) != 1)
    fail("timestep or guidance: expected 1 number or {}, found {}", B, flat.dim(0));
  return cast(sinusoids(broadcast_to(flat, {B}), kSines, true, 0), pooled.dtype());
}

Tensor JointCondition::operator()(const Tensor& time, const Tensor& guidance, const Tensor& pooled,
                                  ForwardContext& context) const {
  if (guidance.defined() != guidance_embedder_.has_value())
    fail("guidance: {}", guidance_embedder_ ? "missing: the network knows it (guidance_embeds)"
                                            : "the network does not know it (guidance_embeds)");
  Tensor told = timestep_embedder_(sines(time, pooled), Tensor(), context);
  if (guidance_embedder_) told = told + (*guidance_embedder_)(sines(guidance, pooled), Tensor(), context);
  return told + text_embedder_(pooled, Tensor(), context);
}

std::vector<Tensor> Modulation::operator()(const Tensor& condition, ForwardContext& context) const {
  const Tensor all = linear_(silu(condition), context);
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < all.dim(1); begin += width_)
    parts.push_back(reshape(slice(all, 1, begin, begin + width_), {all.dim(0), 1, width_}));
  return parts;
}

Tensor modulated(const Tensor& x, const Tensor& shift, const Tensor& scale, const ForwardContext& context) {
  const int64_t D = x.dim(2);
  const Tensor normed =
      layer_norm(x, full({D}, 1, x.dtype()), full({D}, 0, x.dtype()), kJointEpsilon, context.computing);
  return normed * (1.0 + scale) + shift;
}

Tensor LastModulation::operator()(const Tensor& x, const Tensor& condition, ForwardContext& context) const {
  const std::vector<Tensor> m = modulation_(condition, context);
  return modulated(x, m[1], m[0], context);
}

JointAttention::Projections::Projections(const Scope& scope, const char* to_q, const char* to_k, const char* to_v,
                                         const char* of_q, const char* of_k, int64_t width, const JointOptions& o)
    : heads(o.heads),
      head_width(o.head_width),
      q(torch_linear(scope / to_q, width, width)),
      k(torch_linear(scope / to_k, width, width)),
      v(torch_linear(scope / to_v, width, width)) {
  if (!o.norms) return;
  norm_q.emplace(scope / of_q, o.head_width, kJointEpsilon);
  norm_k.emplace(scope / of_k, o.head_width, kJointEpsilon);
}

std::vector<Tensor> JointAttention::Projections::operator()(const Tensor& x, ForwardContext& context) const {
  const Shape by_head{x.dim(0), x.dim(1), heads, head_width};
  std::vector<Tensor> all{reshape(q(x, context), by_head), reshape(k(x, context), by_head),
                          reshape(v(x, context), by_head)};
  if (norm_q) all[0] = (*norm_q)(all[0], context);
  if (norm_k) all[1] = (*norm_k)(all[1], context);
  return all;
}

JointAttention::JointAttention(const Scope& scope, int64_t width, const JointOptions& options, Kind kind)
    : path_(scope.path()), options_(options), own_(scope, "to_q", "to_k", "to_v", "norm_q", "norm_k", width, options) {
  if (kind != Kind::kBare) to_out_ = torch_linear(scope / "to_out.0", width, width);
  if (kind == Kind::kWithText || kind == Kind::kReadsText)
    of_text_.emplace(scope, "add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k", width, options);
  if (kind == Kind::kWithText) to_add_out_ = torch_linear(scope / "to_add_out", width, width);
}

JointAttention::Result JointAttention::operator()(const Tensor& x, const Tensor& text, const PlaceAngles& angles,
                                                  ForwardContext& context) const {
  std::vector<Tensor> all = own_(x, context);
  if (of_text_) {
    const std::vector<Tensor> of_text = (*of_text_)(text, context);
    for (size_t i = 0; i < all.size(); ++i) all[i] = concatenate({of_text[i], all[i]}, 1);
  }
  const int64_t width = options_.heads * options_.head_width;
  Tensor attended;
  {
    const ModuleScope module(path_);
    attended = attention(turned(all[0], angles), turned(all[1], angles), all[2], Tensor(),
                         {.scale = 1 / std::sqrt(static_cast<double>(options_.head_width)), .causal = false},
                         Dropout(0), context);
    attended = reshape(attended, {attended.dim(0), attended.dim(1), width});
  }
  const int64_t T = of_text_ ? text.dim(1) : 0;
  Result result;
  result.x = T > 0 ? slice(attended, 1, T, attended.dim(1)) : attended;
  if (to_out_) result.x = (*to_out_)(result.x, context);
  if (to_add_out_) result.text = (*to_add_out_)(slice(attended, 1, 0, T), context);
  return result;
}

JointBlock::JointBlock(const Scope& scope, int64_t width, const JointOptions& options)
    : norm1_(scope / "norm1", width, options.attends_twice ? 9 : 6),
      attn_(scope / "attn", width, options,
            options.leaves_text ? JointAttention::Kind::kReadsText : JointAttention::Kind::kWithText),
      ff_(scope / "ff", width) {
  const Scope of_text = scope / "norm1_context";
  if (options.attends_twice) attn2_.emplace(scope / "attn2", width, options, JointAttention::Kind::kAlone);
  if (options.leaves_text) {
    last_norm1_context_.emplace(of_text, width);
    return;
  }
  norm1_context_.emplace(of_text, width, 6);
  ff_context_.emplace(scope / "ff_context", width);
}

void JointBlock::operator()(Tensor& x, Tensor& text, const Tensor& condition, const PlaceAngles& angles,
                            ForwardContext& context) const {
  const std::vector<Tensor> m = norm1_(condition, context);  // shift, scale and gate; the same of the feed-forward
  std::vector<Tensor> of_text;
  if (norm1_context_) of_text = (*norm1_context_)(condition, context);
  const Tensor read = norm1_context_ ? modulated(text, of_text[0], of_text[1], context)
                                     : (*last_norm1_context_)(text, condition, context);
  const JointAttention::Result attended = attn_(modulated(x, m[0], m[1], context), read, angles, context);
  const Tensor before = x;
  x = x + m[2] * attended.x;
  if (attn2_) x = x + m[8] * (*attn2_)(modulated(before, m[6], m[7], context), Tensor(), {}, context).x;
  x = x + m[5] * ff_(modulated(x, m[3], m[4], context), context);
  if (!norm1_context_) {
    text = Tensor();
    return;
  }
  text = text + of_text[2] * attended.text;
  text = text + of_text[5] * (*ff_context_)(modulated(text, of_text[3], of_text[4], context), context);
}

SingleStreamBlock::SingleStreamBlock(const Scope& scope, int64_t width, const JointOptions& options)
    : norm_(scope / "norm", width, 3),
      proj_mlp_(torch_linear(scope / "proj_mlp", width, 4 * width)),
      proj_out_(torch_linear(scope / "proj_out", 5 * width, width)),
      attn_(scope / "attn", width, options, JointAttention::Kind::kBare) {}

Tensor SingleStreamBlock::operator()(const Tensor& both, const Tensor& condition, const PlaceAngles& angles,
                                     ForwardContext& context) const {
  const std::vector<Tensor> m = norm_(condition, context);
  const Tensor normed = modulated(both, m[0], m[1], context);
  const Tensor inner = gelu_tanh(proj_mlp_(normed, context));
  const Tensor attended = attn_(normed, Tensor(), angles, context).x;
  return both + m[2] * proj_out_(concatenate({attended, inner}, 2), context);
}

const Tensor& joint_text_input(const NamedTensors& inputs, int64_t batch, int64_t width) {
  const Tensor& tokens = inputs.at("encoder_hidden_states");
  if (tokens.rank() != 3 || tokens.dim(0) != batch || tokens.dim(2) != width)
    fail("encoder_hidden_states: expected [{}, tokens, {}], found {}", batch, width, to_string(tokens.shape()));
  return tokens;
}

FamilyInputs joint_record_inputs(FamilyInput map, int64_t text_width, int64_t pooled_width) {
  using enum FamilyInput::Kind;
  return {std::move(map),
          {.name = "encoder_hidden_states",
           .kind = kNumbers,
           .axes = {{.name = "sequence_length"},
                    {.name = "hidden_size", .fields = {"joint_attention_dim"}, .otherwise = text_width}}},
          {.name = "pooled_projections",
           .kind = kNumbers,
           .axes = {{.name = "pooled_size", .fields = {"pooled_projection_dim"}, .otherwise = pooled_width}}},
          {.name = "timestep", .kind = kNumbers, .axes = {}}};
}

}  // namespace transom
