// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/file_pass.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "models/loading/input_names.h"
#include "models/nn/attention/cache.h"
#include "models/shared/encoder_decoder.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

// The model keeps [B, S, G, d], files [B, G, S, d].
Tensor swapped(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

KeysAndValues swapped(const NamedTensors& inputs, const std::string& prefix) {
  return {swapped(inputs.at(prefix + ".key")), swapped(inputs.at(prefix + ".value"))};
}

void add_present(NamedTensors& outputs, const std::string& prefix, const Tensor& keys, const Tensor& values) {
  outputs.set(prefix + ".key", swapped(keys));
  outputs.set(prefix + ".value", swapped(values));
}

NamedTensors run_whole(const transom::Model& model, const NamedTensors& inputs) {
  NamedTensors outputs;
  for (const auto& [name, tensor] : model.forward(inputs).items())
    if (is_exported_output(name)) outputs.set(name, tensor);
  return outputs;
}

// Goes on from the keys and values of P tokens, and gives those of all.
NamedTensors run_with_past(const transom::Model& model, const ExportedFile& file, const NamedTensors& inputs) {
  const Tensor ids = inputs.at("input_ids"), mask = inputs.at("attention_mask");
  std::vector<KeysAndValues> past;
  for (int64_t layer = 0; layer < file.past_layers; ++layer)
    past.push_back(swapped(inputs, fmt::format("past_key_values.{}", layer)));
  const int64_t P = past[0].keys.dim(1), T = ids.dim(1);
  Tensor positions = inputs.find("position_ids");
  if (!positions.defined()) positions = iota({1, T}, 1) + static_cast<double>(P);
  KeyValueCache cache(std::move(past), mask);
  ForwardContext context;
  context.cache = &cache;
  NamedTensors given{{"input_ids", ids}};
  const std::vector<std::string> names = input_names_of(model);
  if (std::find(names.begin(), names.end(), "position_ids") != names.end()) given.set("position_ids", positions);
  NamedTensors outputs{{"logits", model.forward(given, context).at("logits")}};
  const std::vector<Tensor> all = cache.tensors();
  for (size_t i = 0; i < all.size(); i += 2) add_present(outputs, fmt::format("present.{}", i / 2), all[i], all[i + 1]);
  return outputs;
}

const ConditionalGenerationModel& writer_of(const transom::Model& model) {
  const auto* writer = dynamic_cast<const ConditionalGenerationModel*>(&model);
  if (!writer) fail(ErrorKind::kInternal, "{} has no encoder and decoder", model.architecture());
  return *writer;
}

NamedTensors run_encoder(const transom::Model& model, const NamedTensors& inputs) {
  KeyValueCache cache(1, {1});
  ForwardContext context;
  context.cache = &cache;
  writer_of(model).encode(inputs, context);
  return {{"last_hidden_state", cache.encoder_states}};
}

// The decoder behind what the encoder gave, or behind the keys and values of that and of P tokens.
NamedTensors run_decoder(const transom::Model& model, const ExportedFile& file, const NamedTensors& inputs) {
  const bool goes_on = file.part == FilePart::kDecoderWithPast;
  const Tensor ids = inputs.at("input_ids");
  const int64_t B = ids.dim(0), T = ids.dim(1);
  std::vector<KeysAndValues> past, source;
  for (int64_t layer = 0; goes_on && layer < file.past_layers; ++layer) {
    past.push_back(swapped(inputs, fmt::format("past_key_values.{}.decoder", layer)));
    source.push_back(swapped(inputs, fmt::format("past_key_values.{}.encoder", layer)));
  }
  const int64_t P = goes_on ? past[0].keys.dim(1) : 0;
  // Nothing was seen before: the first pass replaces this.
  if (!goes_on) past.resize(1, {zeros({B, 0, 1, 1}), zeros({B, 0, 1, 1})});
  KeyValueCache cache(std::move(past), broadcast_to(constant(1, DType::kInt64), {B, P + T}));
  cache.encoder_layers = std::move(source);
  cache.encoder_states = inputs.find("encoder_hidden_states");
  cache.encoder_mask = inputs.find("encoder_attention_mask");
  ForwardContext context;
  context.cache = &cache;
  const Tensor positions = goes_on ? iota({1, T}, 1) + static_cast<double>(P) : iota({1, T}, 1);
  NamedTensors outputs{{"logits", writer_of(model).decoder_logits(ids, positions, context)}};
  if (file.past_layers == 0) return outputs;
  cache.encoder_states = {};
  const std::vector<Tensor> all = cache.tensors();  // those of the decoder's layers, then the encoder's
  const size_t half = all.size() / 2;
  for (size_t i = 0; i < half; i += 2) {
    add_present(outputs, fmt::format("present.{}.decoder", i / 2), all[i], all[i + 1]);
    if (!goes_on) add_present(outputs, fmt::format("present.{}.encoder", i / 2), all[half + i], all[half + i + 1]);
  }
  return outputs;
}

}  // namespace

NamedTensors run_file(const transom::Model& model, const ExportedFile& file, const NamedTensors& inputs) {
  switch (file.part) {
    case FilePart::kWhole:
      return file.past_layers > 0 ? run_with_past(model, file, inputs) : run_whole(model, inputs);
    case FilePart::kEncoder:
      return run_encoder(model, inputs);
    case FilePart::kDecoder:
    case FilePart::kDecoderWithPast:
      return run_decoder(model, file, inputs);
  }
  return {};
}

}  // namespace transom::onnx
