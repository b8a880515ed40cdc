// SPDX-License-Identifier: Apache-2.0
#include "models/shared/encoder_heads.h"

#include "base/error.h"

namespace transom {

NamedTensors with_loss(const Tensor& loss, NamedTensors outputs) {
  if (!loss.defined()) return outputs;
  NamedTensors result{{"loss", loss}};
  for (const auto& [name, tensor] : outputs.items()) result.set(name, tensor);
  return result;
}

NamedTensors sequence_classification_outputs(const Tensor& logits, const NamedTensors& inputs,
                                             const std::string& problem_type, const ForwardContext& context) {
  const Tensor labels = inputs.find("labels");
  return with_loss(labels.defined() ? classification_loss(logits, labels, problem_type, context) : Tensor(),
                   {{"logits", logits}});
}

NamedTensors token_outputs(const Tensor& logits, const NamedTensors& inputs, const ForwardContext& context) {
  const Tensor labels = inputs.find("labels");
  return with_loss(labels.defined() ? mean_cross_entropy(logits, labels, context) : Tensor(), {{"logits", logits}});
}

NamedTensors span_outputs(const Tensor& logits, const NamedTensors& inputs, const ForwardContext& context) {
  const Tensor start = squeeze(slice(logits, -1, 0, 1), -1), end = squeeze(slice(logits, -1, 1, 2), -1);
  const Tensor starts = inputs.find("start_positions"), ends = inputs.find("end_positions");
  return with_loss(starts.defined() && ends.defined() ? span_loss(start, end, starts, ends, context) : Tensor(),
                   {{"start_logits", start}, {"end_logits", end}});
}

NamedTensors choice_outputs(const Tensor& scores, int64_t choices, const NamedTensors& inputs,
                            const ForwardContext& context) {
  const Tensor logits = reshape(scores, {-1, choices}), labels = inputs.find("labels");
  return with_loss(labels.defined() ? mean_cross_entropy(logits, labels, context) : Tensor(), {{"logits", logits}});
}

int64_t choices_of(const NamedTensors& inputs) {
  const Tensor embeds = inputs.find("inputs_embeds");
  const Tensor given = embeds.defined() ? embeds : inputs.at("input_ids");
  if (given.rank() != (embeds.defined() ? 4 : 3))
    fail("{}: expected [batch, choices, length{}], found {}", embeds.defined() ? "inputs_embeds" : "input_ids",
         embeds.defined() ? ", width" : "", to_string(given.shape()));
  return given.dim(1);
}

NamedTensors flattened_choices(const NamedTensors& inputs) {
  NamedTensors result;
  for (const auto& [name, tensor] : inputs.items())
    result.set(name, name != "labels" && tensor.rank() >= 3 ? flatten(tensor, 0, 1) : tensor);
  return result;
}

Tensor weighted_sum(const std::vector<Tensor>& hidden_states, const Tensor& weights, const Computing& computing) {
  std::vector<Tensor> stacked;
  for (const Tensor& state : hidden_states) stacked.push_back(unsqueeze(state, 0));
  const Tensor all = concatenate(stacked, 0);  // [states, B, T, D]
  return reduce_sum(all * reshape(cast(softmax(weights, computing), all.dtype()), {all.dim(0), 1, 1, 1}), {0});
}

Tensor positions_after_padding(const Tensor& input_ids, int64_t padding) {
  const Tensor counted = cast(
      not_equal(input_ids, full(input_ids.shape(), static_cast<double>(padding), input_ids.dtype())), DType::kInt64);
  return cumulative_sum(counted, 1) * counted + static_cast<double>(padding);
}

}  // namespace transom
