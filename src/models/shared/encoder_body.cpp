// SPDX-License-Identifier: Apache-2.0
#include "models/shared/encoder_body.h"

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/shared/encoder_heads.h"
#include "transom/ops.h"

namespace transom {
namespace {

// RoBERTa's positions, counted in each text anew.
Tensor positions_in_texts(const Tensor& input_ids, int64_t padding, const TextsInRows& texts) {
  const int64_t B = input_ids.dim(0), T = input_ids.dim(1);
  const Tensor counted = cast(
      not_equal(input_ids, full(input_ids.shape(), static_cast<double>(padding), input_ids.dtype())), DType::kInt64);
  const Tensor upto = cumulative_sum(counted, 1);
  const Tensor begin = squeeze(slice(texts.ranges, 2, 0, 1), 2) + iota({B, T}, 0) * static_cast<double>(T);
  const Tensor before = gather(reshape(upto - counted, {B * T}), reshape(begin, {B * T}), 0);
  return (upto - reshape(before, {B, T})) * counted + static_cast<double>(padding);
}

}  // namespace

EncoderInputs encoder_inputs(const NamedTensors& inputs, int64_t max_position_embeddings,
                             std::optional<int64_t> positions_after_padding, const TextsInRows* texts) {
  EncoderInputs result{.input_ids = inputs.find("input_ids"),
                       .inputs_embeds = inputs.find("inputs_embeds"),
                       .token_type_ids = inputs.find("token_type_ids"),
                       .position_ids = inputs.find("position_ids"),
                       .mask = texts ? Tensor() : additive_mask(inputs.find("attention_mask"))};
  const bool by_id = result.input_ids.defined();
  if (by_id == result.inputs_embeds.defined()) fail("expected either input_ids or inputs_embeds");
  const Tensor& given = by_id ? result.input_ids : result.inputs_embeds;
  if (given.rank() != (by_id ? 2 : 3))
    fail("{}: expected {}, found {}", by_id ? "input_ids" : "inputs_embeds",
         by_id ? "[batch, length]" : "[batch, length, width]", to_string(given.shape()));
  result.length = given.dim(1);
  if (result.position_ids.defined()) return result;

  const int64_t first = positions_after_padding ? *positions_after_padding + 1 : 0;
  if (texts) {
    expect_longest(*texts, max_position_embeddings - first);
    result.position_ids = positions_after_padding && by_id
                              ? positions_in_texts(result.input_ids, *positions_after_padding, *texts)
                              : texts->positions + static_cast<double>(first);
    return result;
  }
  if (result.length + first > max_position_embeddings)
    fail("the input has {} tokens; this model takes at most {} (max_position_embeddings {}); truncate it",
         result.length, max_position_embeddings - first, max_position_embeddings);
  if (positions_after_padding && by_id)
    result.position_ids = transom::positions_after_padding(result.input_ids, *positions_after_padding);
  else result.position_ids = iota({1, result.length}, 1) + static_cast<double>(first);
  return result;
}

void add_hidden_states(NamedTensors& outputs, const std::vector<Tensor>& hidden_states) {
  for (size_t i = 0; i < hidden_states.size(); ++i) outputs.set("hidden_states." + std::to_string(i), hidden_states[i]);
}

}  // namespace transom
