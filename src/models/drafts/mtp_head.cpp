// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction: the states of the model, normed, and the embedding of the token behind, normed, side by side
// through one linear layer, then a block as the model's last one with attention, a norm, and the scores.
#include <algorithm>

#include "base/error.h"
#include "files/checkpoint/checkpoint.h"
#include "models/drafts/draft_head.h"
#include "models/drafts/head_parameters.h"
#include "models/nn/losses/token_loss.h"
#include "models/shared/blocks/norm_layer.h"
#include "models/shared/blocks/planned_decoder.h"

namespace transom {
namespace {

// What a layout calls its parts.
struct MtpNames {
  std::string begin;                      // of all names
  std::string tokens, states, joins;      // modules: norms of both, and the linear layer
  std::string block, final_norm, scores;  // beginnings; of the scores "": the model's
  bool hides_first = false;               // the embedding at position 0 is zero
};

// DeepSeek's and GLM's: the layer behind the model's last one.
MtpNames names_of_layer(int64_t number) {
  return {.begin = "model.layers." + std::to_string(number) + ".",
          .tokens = "enorm",
          .states = "hnorm",
          .joins = "eh_proj",
          .block = "",
          .final_norm = "shared_head.norm.",
          .scores = "shared_head.head.",
          .hides_first = true};
}

// Qwen's.
MtpNames names_of_module() {
  return {.begin = "mtp.",
          .tokens = "pre_fc_norm_embedding",
          .states = "pre_fc_norm_hidden",
          .joins = "fc",
          .block = "layers.0.",
          .final_norm = "norm.",
          .scores = ""};
}

// A decoder of one block, as the model's last one with both parts.
DecoderPlan plan_of_head(const GenerativeModel& model) {
  const DecoderPlan* const whole = plan_of(body_of(model));
  if (!whole)
    fail(ErrorKind::kUnsupported, "drafts: {} has no block that a head of multi-token prediction would repeat",
         model.architecture());
  DecoderPlan plan = *whole;
  const auto last = std::find_if(plan.blocks.rbegin(), plan.blocks.rend(), [](const BlockPlan& block) {
    return block.attends && block.feeds && !block.mixer && !block.attention.keys_of;
  });
  if (last == plan.blocks.rend() || plan.layer_inputs || plan.alibi || plan.positions || model.position_axes() > 1)
    fail(ErrorKind::kUnsupported, "drafts: {} has no block that a head of multi-token prediction would repeat",
         model.architecture());
  plan.blocks = {*last};
  plan.embeddings = "embed_tokens", plan.stack = "layers", plan.final_norm = "norm";
  plan.embedding_norm.clear();
  plan.input_scale = 1;
  return plan;
}

class MtpHead : public DraftHead {
 public:
  MtpHead(const GenerativeModel& model, const MtpNames& names, const DecoderPlan& plan, const Scope& scope,
          std::shared_ptr<Parameter> scores)
      : body_(body_of(model)),
        layers_(static_cast<size_t>(plan_of(body_)->blocks.size())),
        width_(plan.width),
        traits_(plan.traits),
        hides_first_(names.hides_first),
        tokens_(scope / names.tokens, plan.width, plan.norm),
        states_(scope / names.states, plan.width, plan.norm),
        joins_(scope / names.joins, 2 * plan.width, plan.width, {.bias = false}),
        block_(make_planned_decoder(plan, scope)),
        scores_(std::move(scores)) {
    if (!scores_)
      scores_ = scope.parameter("scores.weight", {traits_.vocab_size, traits_.width}, Initial::normal(0.02));
  }

  Predicted operator()(const Tensor& ids, const Tensor& positions, const Tensor& states, bool /*first*/, int64_t scored,
                       ForwardContext& context) const override {
    Tensor tokens = body_.embed(ids, context);
    if (hides_first_) {
      const Tensor is_first = equal(unsqueeze(positions, 2), zeros({1, ids.dim(1), 1}, DType::kInt64));
      tokens = select(is_first, zeros(tokens.shape(), tokens.dtype()), tokens);
    }
    const Tensor joined = concatenate({tokens_(tokens, context), states_(cast(states, tokens.dtype()), context)}, 2);
    const Tensor made =
        (*block_)({{"inputs_embeds", joins_(joined, context)}, {"position_ids", positions}}, context).last_hidden_state;
    const Tensor last = squeeze(slice(made, 1, made.dim(1) - scored, made.dim(1)), 0);
    const LogitsHead head{
        .weight = *scores_, .multiplier = traits_.logit_multiplier, .soft_cap = traits_.logit_soft_cap};
    return {cast(head(last, context), DType::kFloat32), cast(last, DType::kFloat32)};
  }
  std::vector<size_t> reads() const override { return {layers_}; }
  int64_t width() const override { return width_; }

 private:
  const Decoder& body_;
  size_t layers_;  // of the model
  int64_t width_;
  DecoderTraits traits_;
  bool hides_first_;
  PlannedNorm tokens_, states_;
  Linear joins_;
  std::unique_ptr<Decoder> block_;
  std::shared_ptr<Parameter> scores_;
};

}  // namespace

std::unique_ptr<DraftHead> load_mtp_head(const std::string& directory, const GenerativeModel& model,
                                         const LoadOptions& options) {
  const DecoderPlan plan = plan_of_head(model);
  const auto layers = static_cast<int64_t>(plan_of(body_of(model))->blocks.size());
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const auto has = [&](const MtpNames& names) {
    const std::string name = names.begin + names.joins + ".weight";
    return checkpoint.find(name) || checkpoint.find_compressed(name);
  };
  MtpNames names = names_of_layer(layers);
  if (!has(names)) names = names_of_module();
  if (!has(names))
    fail(
        "{}: expected a head of multi-token prediction (model.layers.{}.eh_proj.weight, or mtp.fc.weight), found none: "
        "many checkpoints are published without it",
        directory, layers);
  const std::string own_scores = names.begin + names.scores + "weight";
  const bool scores_itself =
      !names.scores.empty() && (checkpoint.find(own_scores) || checkpoint.find_compressed(own_scores));
  std::shared_ptr<Parameter> scores;
  if (!scores_itself) scores = parameter_named(model, plan.traits.head + ".weight");
  if (!scores_itself && !scores) scores = body_of(model).word_embeddings().weight();  // tied
  const std::shared_ptr<Parameter> table = body_of(model).word_embeddings().weight();
  HeadParameters source(checkpoint, model, options,
                        {{"layers.0.", names.begin + names.block},
                         {"norm.", names.begin + names.final_norm},
                         {"scores.", names.begin + names.scores},
                         {names.tokens + ".", names.begin + names.tokens + "."},
                         {names.states + ".", names.begin + names.states + "."},
                         {names.joins + ".", names.begin + names.joins + "."}},
                        {{"embed_tokens.weight", table}});
  auto head = std::make_unique<MtpHead>(model, names, plan, Scope(source), scores);
  source.finish(model.config(), directory);  // the rest is the model's
  return head;
}

}  // namespace transom
