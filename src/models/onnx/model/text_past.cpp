// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/model/text_past.h"

#include <algorithm>

#include "base/error.h"
#include "models/onnx/model/graph_inputs.h"
#include "models/onnx/model/past_values.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

std::string name_of_past(int64_t i, bool key) { return fmt::format("past_key_values.{}.{}", i, key ? "key" : "value"); }
std::string name_of_present(int64_t i, bool key) { return fmt::format("present.{}.{}", i, key ? "key" : "value"); }

Tensor ones_of(int64_t rows, int64_t count) { return broadcast_to(constant(1, DType::kInt64), {rows, count}); }

// Positions that count what the mask shows, from 0 on; those of padding do not matter.
Tensor places_of(const Tensor& mask) {
  const Tensor count = cumulative_sum(mask, 1);
  return count - cast(greater(count, zeros(count.shape(), DType::kInt64)), DType::kInt64);
}

}  // namespace

TextPast::TextPast(std::shared_ptr<const ImportedGraph> graph, int64_t window, int64_t limit)
    : graph_(std::move(graph)),
      takes_positions_(graph_->find_input("position_ids") != nullptr),
      window_(window),
      limit_(limit),
      layers_(layers_of_graph()) {}

// 0: it takes none, or asks for more than ids, a mask, positions and the past.
int64_t TextPast::layers_of_graph() const {
  for (const char* name : {"input_ids", "attention_mask"})
    if (!graph_->find_input(name)) return 0;
  for (const ValueInfo* input : graph_->required_inputs())
    if (input->name != "input_ids" && input->name != "attention_mask" && input->name != "position_ids" &&
        !input->name.starts_with("past_key_values."))
      return 0;
  const auto& outputs = graph_->model().graph.outputs;
  const auto gives = [&](const std::string& name) {
    return std::any_of(outputs.begin(), outputs.end(), [&](const ValueInfo& output) { return output.name == name; });
  };
  if (!gives("logits")) return 0;
  for (int64_t layers = 0; layers < kMostPastLayers; ++layers)
    for (const bool key : {true, false}) {
      const ValueInfo* input = graph_->find_input(name_of_past(layers, key));
      if (!input) return key ? layers : 0;
      if (!input->shape || input->shape->size() != 4 || (*input->shape)[2].value >= 0 ||
          (*input->shape)[1].value <= 0 || (*input->shape)[3].value <= 0 || !gives(name_of_present(layers, key)))
        return 0;
    }
  return 0;
}

NamedTensors TextPast::run(const Tensor& ids, const Tensor& mask, const Tensor& positions,
                           const std::vector<Tensor>& past, const Computing& computing) const {
  NamedTensors given{{"input_ids", ids}, {"attention_mask", mask}, {"position_ids", positions}};
  for (int64_t layer = 0; layer < layers_; ++layer)
    for (const bool key : {true, false}) {
      const std::string name = name_of_past(layer, key);
      const ValueInfo& input = *graph_->find_input(name);
      given.set(name, past.empty() ? zeros({ids.dim(0), (*input.shape)[1].value, 0, (*input.shape)[3].value},
                                           info(input.type).carrier.value_or(DType::kFloat32))
                                   : past.at(static_cast<size_t>(2 * layer + (key ? 0 : 1))));
    }
  NamedValues values;
  for (const ValueInfo* input : graph_->required_inputs())
    values.emplace_back(input->name, converted(given.at(input->name), *input));
  NamedTensors outputs;
  for (auto& [name, value] : graph_->run(values, computing)) outputs.set(name, value.tensor);
  return outputs;
}

TextPast::Way TextPast::way() const {
  std::call_once(tried_, [this] { way_ = find_way(); });
  return way_;
}

// Three tokens at once, and the same behind a past: whole, and with empty places in it.
TextPast::Way TextPast::find_way() const {
  constexpr int64_t kTokens = 3, kSeen = 2, kEmpty = 13;
  constexpr double kSame = 2e-5;
  if (layers_ == 0) return Way::kNone;
  if (takes_positions_ && window_ == 0) return Way::kPadded;
  const NoGradient inference;
  const ModeScope eager(Mode::kEager);
  try {
    const Tensor ids = Tensor::from(std::vector<int64_t>{1, 2, 3}, {1, kTokens}), mask = ones_of(1, kTokens);
    const Tensor positions = places_of(mask);
    const NamedTensors whole = run(ids, mask, positions, {}, kAsGiven);
    std::vector<Tensor> one, empty;
    bool in_f32 = true;
    for (int64_t layer = 0; layer < layers_; ++layer)
      for (const bool key : {true, false}) {
        const Tensor seen = whole.at(name_of_present(layer, key));
        in_f32 = in_f32 && seen.dtype() == DType::kFloat32;
        one.push_back(slice(seen, 2, 0, 1));
        const Tensor nothing = cast(waves({1, seen.dim(1), kEmpty, seen.dim(3)}), seen.dtype());
        empty.push_back(concatenate({slice(seen, 2, 0, kSeen), nothing}, 2));
      }
    const NamedTensors behind_one = run(slice(ids, 1, 1, 3), mask, slice(positions, 1, 1, 3), one, kAsGiven);
    for (int64_t t = 1; t < kTokens; ++t)
      if (!are_near(logits_at(whole, t), logits_at(behind_one, t - 1))) return Way::kNone;
    if (takes_positions_) return Way::kPadded;
    if (!in_f32 || (window_ > 0 && window_ <= kSeen + kEmpty)) return Way::kBlocks;
    const Tensor hidden = concatenate({ones_of(1, kSeen), zeros({1, kEmpty}, DType::kInt64), ones_of(1, 1)}, 1);
    const NamedTensors behind_empty = run(slice(ids, 1, 2, 3), hidden, slice(positions, 1, 2, 3), empty, kAsGiven);
    if (!are_near(logits_at(whole, 2), logits_at(behind_empty, 0), kSame)) return Way::kBlocks;
    // Keys hold positions in most models, and there a wrong one shows most.
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const std::string name = name_of_present(layer, true);
      if (!are_near(slice(whole.at(name), 2, 2, 3), slice(behind_empty.at(name), 2, kSeen + kEmpty, kSeen + kEmpty + 1),
                    kSame))
        return Way::kBlocks;
    }
    return Way::kPadded;
  } catch (const Error&) {
    return Way::kNone;  // it does not take what this class would give it
  }
}

// Takes what the graph gave for ids from place `from` on.
void TextPast::append(const NamedTensors& outputs, const Tensor& ids, int64_t from, KeyValueCache& cache) const {
  const int64_t B = ids.dim(0), T = ids.dim(1);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto added = [&](bool key) {
      return with_heads_swapped(slice(outputs.at(name_of_present(layer, key)), 2, from, from + T));
    };
    cache.append(layer, added(true), added(false));
  }
  if (!keeps_tokens()) return;
  // Behind the layers the tokens themselves, which are read again.
  const Tensor tokens = reshape(ids, {B, T, 1, 1});
  cache.append(layers_, tokens, tokens);
}

Tensor TextPast::logits(const Tensor& ids, const Tensor& positions, KeyValueCache& cache,
                        const Computing& computing) const {
  const int64_t T = ids.dim(1);
  if (cache.length() == 0) {
    const NamedTensors outputs = run(ids, slice(cache.places(), 1, 0, T), positions, {}, computing);
    append(outputs, ids, 0, cache);
    return logits_at(outputs, T - 1);
  }
  const bool reaches_over = window_ > 0 && cache.tensors().at(0).dim(1) + T > window_;
  return way() == Way::kBlocks || reaches_over ? from_blocks(ids, cache, computing)
                                               : from_padded(ids, positions, cache, computing);
}

// The past is all S places of the cache, filled or not; the mask hides those that are not, and the new tokens stand
// behind them.
Tensor TextPast::from_padded(const Tensor& ids, const Tensor& positions, KeyValueCache& cache,
                             const Computing& computing) const {
  std::vector<Tensor> past = cache.tensors();
  past.resize(static_cast<size_t>(2 * layers_));
  const int64_t B = ids.dim(0), T = ids.dim(1), S = past.at(0).dim(1);
  for (Tensor& each : past) each = with_heads_swapped(each);
  // What the first new token sees, without its own place, which is the last.
  const Tensor bias = reshape(slice(cache.visible(T, 0), 2, 0, 1), {B, S});
  const Tensor seen = cast(greater(bias, full({B, S}, -1, bias.dtype())), DType::kInt64);
  const Tensor count = cumulative_sum(seen, 1);
  const Tensor before = cast(less(count, broadcast_to(slice(count, 1, S - 1, S), {B, S})), DType::kInt64);
  const NamedTensors outputs = run(ids, concatenate({seen * before, ones_of(B, T)}, 1), positions, past, computing);
  append(outputs, ids, S, cache);
  return logits_at(outputs, T - 1);
}

// The past ends where the last full block ended; the block is read again, filled up with tokens behind the text, which
// change nothing before them.
Tensor TextPast::from_blocks(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const {
  const int64_t B = ids.dim(0), T = ids.dim(1), seen = cache.length();
  const int64_t past = (seen - 1) / kPastBlock * kPastBlock, count = seen + T - past;
  int64_t room = (count + kPastBlock - 1) / kPastBlock * kPastBlock;
  if (limit_ > 0) room = std::max(count, std::min(room, limit_ - past));
  const std::vector<Tensor> held = cache.tensors();
  const auto held_part = [&](int64_t layer, bool key, int64_t from, int64_t to) {
    return slice(held.at(static_cast<size_t>(2 * layer + (key ? 0 : 1))), 1, from, to);
  };
  std::vector<Tensor> parts{reshape(held_part(layers_, true, past, seen), {B, seen - past}), ids};
  if (room > count) parts.push_back(broadcast_to(slice(ids, 1, T - 1, T), {B, room - count}));
  const Tensor mask = concatenate({slice(cache.places(), 1, 0, seen), ones_of(B, past + room - seen)}, 1);
  std::vector<Tensor> before;
  for (int64_t layer = 0; past > 0 && layer < layers_; ++layer)
    for (const bool key : {true, false}) before.push_back(with_heads_swapped(held_part(layer, key, 0, past)));
  const NamedTensors outputs =
      run(concatenate(parts, 1), mask, slice(places_of(mask), 1, past, past + room), before, computing);
  append(outputs, ids, seen, cache);
  return logits_at(outputs, count - 1);
}

}  // namespace transom::onnx
