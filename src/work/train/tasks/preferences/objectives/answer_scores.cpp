// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/answer_scores.h"

#include "models/loading/adapters/adaptation.h"
#include "models/next_token.h"
#include "models/nn/losses/token_loss.h"
#include "transom/batch.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kTokenOutputs[] = {"logits", "token_losses", "token_entropies", "token_right", "token_means"};

// Behind virtual tokens only logits are cut back to the tokens that were given.
bool has_losses_of_tokens(const Model& model) {
  const bool plain_rows = !model.adaptation() || !model.adaptation()->virtual_tokens();
  return plain_rows && predicts_next_token(model);
}

// What each place is to predict, as labels of a language model: all tokens that are no padding.
Tensor all_tokens(const NamedTensors& given) {
  const Tensor ids = cast(given.at("input_ids"), DType::kInt64), mask = given.at("attention_mask");
  const Tensor is_padding = equal(mask, full(mask.shape(), 0, mask.dtype()));
  return select(is_padding, full(ids.shape(), static_cast<double>(kIgnoredLabel), DType::kInt64), ids);
}

}  // namespace

AnswerScores::AnswerScores(const NamedTensors& outputs) {
  for (const char* name : kTokenOutputs)
    if (const Tensor value = outputs.find(name); value.defined()) said_.set(name, value);
}

Tensor AnswerScores::before_last(const char* name) const {
  const Tensor& all = said_.at(name);
  return slice(all, 1, 0, all.dim(1) - 1);
}

Tensor AnswerScores::log_probabilities(const AnswerMask& mask) const {
  if (logits().defined()) return transom::log_probabilities(logits(), mask);
  const Tensor losses = before_last("token_losses"), none = full(losses.shape(), 0);
  return select(equal(mask.counted, none), none, -losses);
}

Tensor AnswerScores::entropies() const {
  return logits().defined() ? entropies_of_next(logits()) : before_last("token_entropies");
}

Tensor AnswerScores::right_predictions(const AnswerMask& mask) const {
  return logits().defined() ? transom::right_predictions(logits(), mask) : before_last("token_right");
}

Tensor AnswerScores::mean_logits() const {
  return logits().defined() ? transom::mean_logits(logits()) : before_last("token_means");
}

Tensor AnswerScores::mean_logits_of_all() const {
  const NoGradient only_numbers;
  return logits().defined() ? mean(cast(logits().detach(), DType::kFloat32), {-1}) : said_.at("token_means");
}

void AnswerScores::add_to(NamedTensors& outputs) const {
  for (const auto& [name, value] : said_.items()) outputs.set(name, value.detach());
}

AnswerScores scores_of_answers(const Model& model, const NamedTensors& given, const ForwardContext& context,
                               AskedScores asked, const ReferencePolicy* reference) {
  const TokenLoss how{.keeps_logits = false, .measures = asked != AskedScores::kNone, .each = true};
  NamedTensors inputs = given;
  ForwardContext pass = context;
  if (asked != AskedScores::kLogits && has_losses_of_tokens(model)) {
    inputs.set("labels", all_tokens(given));
    pass.token_loss = &how;
    pass.loss_divisors = nullptr;  // a mean that some models make of the labels is nobody's
    pass.num_items_in_batch = {};
  }
  return AnswerScores(reference ? reference->outputs(model, inputs, pass) : model.forward(inputs, pass));
}

}  // namespace transom
