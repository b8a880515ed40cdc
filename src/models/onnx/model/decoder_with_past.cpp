// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/model/decoder_with_past.h"

#include <algorithm>

#include "base/error.h"
#include "models/onnx/model/graph_inputs.h"
#include "models/onnx/model/past_values.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

constexpr const char* kParts[] = {"decoder.key", "decoder.value", "encoder.key", "encoder.value"};

bool gives(const ImportedGraph& graph, const std::string& name) {
  const auto& outputs = graph.model().graph.outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](const ValueInfo& output) { return output.name == name; });
}

std::string past_name(int64_t layer, const char* part) { return fmt::format("past_key_values.{}.{}", layer, part); }
std::string present_name(int64_t layer, const char* part) { return fmt::format("present.{}.{}", layer, part); }

// Beams share what the encoder made for their text.
Tensor row_for_each(const Tensor& x, int64_t rows) {
  if (!x.defined() || x.dim(0) == rows) return x;
  Shape apart = x.shape(), together = x.shape();
  apart.insert(apart.begin() + 1, rows / x.dim(0));
  together[0] = rows;
  return reshape(broadcast_to(unsqueeze(x, 1), apart), together);
}

// Runs the graph on those of the values that it takes.
NamedTensors outputs_of(const ImportedGraph& graph, const NamedTensors& given, const Computing& computing) {
  NamedValues values;
  for (const ValueInfo* input : graph.required_inputs()) {
    const Tensor value = given.find(input->name);
    if (!value.defined()) fail("{}: input {} is missing", graph.model().where, quoted(input->name));
    values.emplace_back(input->name, converted(value, *input));
  }
  NamedTensors outputs;
  for (auto& [name, value] : graph.run(values, computing)) outputs.set(name, value.tensor);
  return outputs;
}

NamedTensors inputs_of(const Tensor& ids, const Tensor& states, const Tensor& mask) {
  const int64_t rows = ids.dim(0);
  NamedTensors inputs{{"input_ids", ids}, {"encoder_hidden_states", row_for_each(states, rows)}};
  inputs.set("encoder_attention_mask", mask.defined()
                                           ? row_for_each(mask, rows)
                                           : broadcast_to(constant(1, DType::kInt64), {rows, states.dim(1)}));
  return inputs;
}

}  // namespace

std::unique_ptr<const DecoderWithPast> DecoderWithPast::of(std::shared_ptr<const ImportedGraph> first,
                                                           std::shared_ptr<const ImportedGraph> next, int64_t limit) {
  if (!first || !next || !next->find_input("input_ids") || !gives(*next, "logits")) return nullptr;
  int64_t layers = 0;
  for (; layers < kMostPastLayers && next->find_input(past_name(layers, kParts[0])); ++layers)
    for (const char* part : kParts) {
      const ValueInfo* input = next->find_input(past_name(layers, part));
      const bool is_decoders = std::string_view(part).starts_with("decoder");
      if (!input || !input->shape || input->shape->size() != 4 || !gives(*first, present_name(layers, part)) ||
          (is_decoders && !gives(*next, present_name(layers, part))))
        return nullptr;
    }
  if (layers == 0) return nullptr;
  std::unique_ptr<DecoderWithPast> decoder(new DecoderWithPast);
  decoder->first_ = std::move(first), decoder->next_ = std::move(next);
  decoder->layers_ = layers, decoder->limit_ = limit;
  if (!decoder->reads_blocks()) return nullptr;
  return decoder;
}

// Whether two tokens at once give what they give one after the other. Exporters may leave the causal mask out of a
// graph that they trace with one token.
bool DecoderWithPast::reads_blocks() const {
  constexpr int64_t kSource = 4, kMostNumbers = int64_t{1} << 24;
  const NoGradient inference;
  const ModeScope eager(Mode::kEager);
  NamedTensors given;
  for (const ValueInfo* input : next_->required_inputs()) {
    if (input->name == "input_ids" || !input->shape) continue;
    Shape shape;
    int64_t numbers = 1;
    for (size_t i = 0; i < input->shape->size(); ++i) {
      const int64_t declared = (*input->shape)[i].value;
      const bool is_length = i == (input->name.starts_with("past_key_values") ? 2u : 1u);
      const bool is_decoders = input->name.find(".decoder.") != std::string::npos;
      shape.push_back(declared > 0 ? declared : i == 0 || is_decoders ? 1 : is_length ? kSource : -1);
      if (shape.back() < 0 || __builtin_mul_overflow(numbers, shape.back(), &numbers) || numbers > kMostNumbers)
        return false;
    }
    const bool is_mask = input->name.ends_with("mask");
    given.set(input->name, is_mask ? broadcast_to(constant(1, DType::kInt64), shape) : waves(shape));
  }
  const auto run = [&](std::vector<int64_t> ids, const NamedTensors* before) {
    NamedTensors inputs = given;
    const auto count = static_cast<int64_t>(ids.size());
    inputs.set("input_ids", Tensor::from(ids, {1, count}));
    for (int64_t layer = 0; before && layer < layers_; ++layer)
      for (const char* part : {kParts[0], kParts[1]})
        inputs.set(past_name(layer, part), before->at(present_name(layer, part)));
    return outputs_of(*next_, inputs, kAsGiven);
  };
  try {
    const NamedTensors one = run({1}, nullptr), other = run({2}, &one), both = run({1, 2}, nullptr);
    return are_near(logits_at(one, 0), logits_at(both, 0)) && are_near(logits_at(other, 0), logits_at(both, 1));
  } catch (const Error&) {
    return false;  // it takes one token at a time
  }
}

Tensor DecoderWithPast::logits(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const {
  return cache.length() == 0 ? begin(ids, cache, computing) : go_on(ids, cache, computing);
}

Tensor DecoderWithPast::begin(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const {
  NamedTensors inputs = inputs_of(ids, cache.encoder_states, cache.encoder_mask);
  for (const ValueInfo* input : first_->required_inputs())  // of a merged file
    if (input->name.starts_with("past_key_values") && input->shape && input->shape->size() == 4)
      inputs.set(input->name, unread_past(*input, ids.dim(0), first_->model().where));
  const NamedTensors outputs = outputs_of(*first_, inputs, computing);
  cache.encoder_layers.clear();
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto present = [&](const char* part) { return with_heads_swapped(outputs.at(present_name(layer, part))); };
    cache.append(layer, present(kParts[0]), present(kParts[1]));
    cache.encoder_layers.push_back({present(kParts[2]), present(kParts[3])});
  }
  // Behind the layers the tokens themselves, which are read again.
  const Tensor tokens = reshape(ids, {ids.dim(0), ids.dim(1), 1, 1});
  cache.append(layers_, tokens, tokens);
  return logits_at(outputs, ids.dim(1) - 1);
}

Tensor DecoderWithPast::go_on(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const {
  const int64_t rows = ids.dim(0), T = ids.dim(1), seen = cache.length();
  const int64_t past = 1 + (seen - 1) / kPastBlock * kPastBlock, count = seen + T - past;
  int64_t room = (count + kPastBlock - 1) / kPastBlock * kPastBlock;
  if (limit_ > 0) room = std::max(count, std::min(room, limit_ - past));

  const std::vector<Tensor> held = cache.tensors();
  const auto held_part = [&](int64_t layer, bool keys, int64_t from, int64_t to) {
    return slice(held.at(static_cast<size_t>(2 * layer) + (keys ? 0 : 1)), 1, from, to);
  };
  const Tensor read = reshape(held_part(layers_, true, past, seen), {rows, seen - past});
  const Tensor last = slice(ids, 1, T - 1, T);
  std::vector<Tensor> parts{ids};
  if (seen > past) parts.insert(parts.begin(), read);
  if (room > count) parts.push_back(broadcast_to(last, {rows, room - count}));

  NamedTensors inputs = inputs_of(concatenate(parts, 1), cache.encoder_states, cache.encoder_mask);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    KeysAndValues& source = cache.encoder_layers.at(static_cast<size_t>(layer));
    source = {row_for_each(source.keys, rows), row_for_each(source.values, rows)};
    inputs.set(past_name(layer, kParts[0]), with_heads_swapped(held_part(layer, true, 0, past)));
    inputs.set(past_name(layer, kParts[1]), with_heads_swapped(held_part(layer, false, 0, past)));
    inputs.set(past_name(layer, kParts[2]), with_heads_swapped(source.keys));
    inputs.set(past_name(layer, kParts[3]), with_heads_swapped(source.values));
  }
  const NamedTensors outputs = outputs_of(*next_, inputs, computing);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto added = [&](const char* part) {
      return with_heads_swapped(slice(outputs.at(present_name(layer, part)), 2, seen, seen + T));
    };
    cache.append(layer, added(kParts[0]), added(kParts[1]));
  }
  const Tensor tokens = reshape(ids, {rows, T, 1, 1});
  cache.append(layers_, tokens, tokens);
  return logits_at(outputs, count - 1);
}

}  // namespace transom::onnx
