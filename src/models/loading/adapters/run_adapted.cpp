// SPDX-License-Identifier: Apache-2.0
// The pass of a model with adapters: virtual tokens before each row, and what a kind adds to the loss.
#include <algorithm>

#include "base/error.h"
#include "models/generative.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/kinds/prompt_learning.h"
#include "models/loading/input_names.h"
#include "models/nn/losses/loss_divisors.h"
#include "models/records.h"
#include "transom/ops.h"

namespace transom {
namespace {

// [n, ...] before x [B, T, ...], for each of the rows.
Tensor with_rows_before(const Tensor& before, const Tensor& x) {
  Shape shape = before.shape();
  shape.insert(shape.begin(), x.dim(0));
  return concatenate({broadcast_to(unsqueeze(cast(before, x.dtype()), 0), shape), x}, 1);
}

Tensor with_value_before(double value, int64_t count, const Tensor& x) {
  return concatenate({full({x.dim(0), count}, value, x.dtype()), x}, 1);
}

const Tensor& tokens_of(const NamedTensors& inputs) {
  const Tensor ids = inputs.find("input_ids");
  return inputs.at(ids.defined() ? "input_ids" : "inputs_embeds");
}

// The mask of the tokens given, i64 [B, T].
Tensor mask_of_tokens(const NamedTensors& inputs, const Tensor& tokens) {
  const Tensor mask = inputs.find("attention_mask");
  const Shape shape{tokens.dim(0), tokens.dim(1)};
  if (!mask.defined()) return full(shape, 1, DType::kInt64);
  if (mask.shape() != shape)
    fail(ErrorKind::kUnsupported, "attention_mask: expected {} beside virtual tokens, found {}", to_string(shape),
         to_string(mask.shape()));
  return cast(mask, DType::kInt64);
}

// Where tokens stand behind n virtual ones, padding not counted: [B, T].
Tensor positions_behind(const Tensor& mask, int64_t count) {
  const Tensor places = cumulative_sum(mask, 1) * mask - 1.0;
  return maximum(places, zeros(places.shape(), places.dtype())) + static_cast<double>(count);
}

bool takes_input(const Model& model, std::string_view name) {
  const std::vector<std::string> names = input_names_of(model);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

NamedTensors Adaptation::run(const Model& model, const NamedTensors& inputs, const ForwardContext& context) const {
  // With a cache, whoever fills it has put the virtual tokens there (KeyValueCache::seed, Decoding).
  NamedTensors outputs =
      tokens_ && !context.cache ? run_behind_tokens(model, inputs, context) : model.run_texts(inputs, context);
  const Tensor loss = outputs.find("loss");
  if (!training_ || !loss.defined()) return outputs;
  // The same for each part of a batch: its mean over them is added once.
  if (const Tensor more = training_->loss(context.computing); more.defined())
    outputs.set("loss", loss + cast(mean_of_all(reshape(more, {1}), context), loss.dtype()));
  return outputs;
}

NamedTensors Adaptation::run_behind_tokens(const Model& model, const NamedTensors& given,
                                           ForwardContext context) const {
  if (given.find("seq_idx").defined())
    fail(ErrorKind::kUnsupported, "seq_idx: expected one text a row beside virtual tokens");
  const bool writes = dynamic_cast<const GenerativeModel*>(&model) != nullptr;
  const int64_t n = tokens_->count();
  const Tensor tokens = tokens_of(given), mask = mask_of_tokens(given, tokens);
  NamedTensors inputs;
  for (const auto& [name, tensor] : given.items())
    if (name != "attention_mask" && name != "position_ids") inputs.set(name, tensor);
  const Tensor places = given.find("position_ids");
  const Tensor all = with_value_before(1, n, mask);

  if (std::vector<KeysAndValues> layers = tokens_->keys_and_values(context); !layers.empty()) {
    if (context.gradient_checkpointing && context.training)
      fail(ErrorKind::kUnsupported, "gradient_checkpointing: expected false with PREFIX_TUNING, as PEFT has it");
    for (KeysAndValues& layer : layers)
      for (Tensor* part : {&layer.keys, &layer.values}) {
        Shape shape = part->shape();
        shape[0] = tokens.dim(0);
        *part = broadcast_to(*part, shape);
      }
    KeyValueCache cache(std::move(layers), all);
    context.cache = &cache;
    if (takes_input(model, "position_ids"))
      inputs.set("position_ids", places.defined() ? places + static_cast<double>(n) : positions_behind(mask, n));
    return model.run_texts(inputs, context);
  }

  inputs.set("attention_mask", all);
  if (places.defined())
    inputs.set("position_ids",
               concatenate({broadcast_to(iota({1, n}, 1), {places.dim(0), n}), places + static_cast<double>(n)}, 1));
  if (const Tensor types = given.find("token_type_ids"); types.defined()) {
    if (writes)
      fail(ErrorKind::kUnsupported, "token_type_ids: virtual tokens of {} have none; leave them out",
           model.architecture());
    inputs.set("token_type_ids", with_value_before(0, n, types));
  }
  const FamilyHead& head = head_of(model);
  const bool by_token = *head.labels == HeadLabels::kTokens || *head.labels == HeadLabels::kTokenClasses ||
                        *head.labels == HeadLabels::kReplaced;
  if (const Tensor labels = given.find("labels"); labels.defined() && by_token)
    inputs.set("labels", with_value_before(-100, n, labels));
  const Tensor embeds = given.find("inputs_embeds");
  const Tensor vectors = embeds.defined() ? embeds : token_vectors(model, tokens, context);
  inputs.set("inputs_embeds", with_rows_before(tokens_->embeddings(context), vectors));
  NamedTensors without_ids;
  for (const auto& [name, tensor] : inputs.items())
    if (name != "input_ids") without_ids.set(name, tensor);
  // What stands for virtual tokens is nobody's.
  NamedTensors outputs;
  for (const auto& [name, tensor] : model.run_texts(without_ids, context).items()) {
    const bool of_all = tensor.rank() == 3 && tensor.dim(1) == n + tokens.dim(1);
    outputs.set(name, of_all ? slice(tensor, 1, n, n + tokens.dim(1)) : tensor);
  }
  return outputs;
}

}  // namespace transom
