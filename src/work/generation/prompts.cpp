// SPDX-License-Identifier: Apache-2.0
#include "work/generation/prompts.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/generative.h"

namespace transom {
namespace {

struct Numbers {
  std::vector<double> values;
  bool whole = true;
  const std::string& where;

  // Appends the numbers of a list whose lists have the extents from `axis` on.
  void append(const Json& json, const Shape& shape, size_t axis) {
    if (axis == shape.size()) {
      if (!json.is_number()) fail("{}: expected numbers, found {}", where, quoted(dump_json(json), 40));
      whole = whole && json.is_number_integer();
      values.push_back(json.get<double>());
      return;
    }
    if (!json.is_array() || static_cast<int64_t>(json.size()) != shape[axis])
      fail("{}: expected lists of one length, {} here, found {}; fill shorter rows up and mask the padding", where,
           shape[axis], json.is_array() ? std::to_string(json.size()) : quoted(dump_json(json), 40));
    for (const Json& item : json) append(item, shape, axis + 1);
  }
};

Tensor tensor_of_json(const Json& json, const std::string& where) {
  Shape shape;
  for (const Json* level = &json; level->is_array(); level = &level->front()) {
    shape.push_back(static_cast<int64_t>(level->size()));
    if (level->empty()) break;
  }
  if (shape.empty()) fail("{}: expected a list of lists of numbers, found {}", where, quoted(dump_json(json), 40));
  Numbers numbers{.values = {}, .where = where};
  numbers.append(json, shape, 0);
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (!numbers.whole) return Tensor::from(std::vector<float>(numbers.values.begin(), numbers.values.end()), shape);
  return Tensor::from(std::vector<int64_t>(numbers.values.begin(), numbers.values.end()), shape);
}

}  // namespace

bool writes_anew(const Model& model) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  return writer && writer->has_encoder();
}

NamedTensors prompts_of_tensors(const Json& json, const std::string& where) {
  if (!json.is_object() || json.empty())
    fail("{}: expected an object with \"input_ids\", \"input_features\" or \"text\", found {}", where,
         quoted(dump_json(json)));
  NamedTensors inputs;
  for (const auto& [name, value] : json.items()) {
    if (value.is_null()) continue;
    Tensor tensor = tensor_of_json(value, where + ": " + name);
    const bool numbers = name == "input_features" || name == "inputs_embeds" || name == "pixel_values";
    if (numbers && !is_floating(tensor.dtype())) tensor = Tensor::from(tensor.to_vector<float>(), tensor.shape());
    inputs.set(name, tensor);
  }
  return inputs;
}

NamedTensors prompts_of(std::span<const TokenIds> rows, const Model& model, const Tokenizer& tokenizer) {
  const bool left = !writes_anew(model) || tokenizer.padding_side() == Side::kLeft;
  const int64_t padding = tokenizer.pad_token_id().value_or(tokenizer.eos_token_id().value_or(0));
  size_t length = 0;
  for (const TokenIds& row : rows) length = std::max(length, row.size());
  std::vector<int64_t> ids, mask;
  for (const TokenIds& row : rows) {
    const size_t before = left ? length - row.size() : 0, behind = length - row.size() - before;
    ids.insert(ids.end(), before, padding);
    ids.insert(ids.end(), row.begin(), row.end());
    ids.insert(ids.end(), behind, padding);
    mask.insert(mask.end(), before, 0);
    mask.insert(mask.end(), row.size(), 1);
    mask.insert(mask.end(), behind, 0);
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(length)};
  return {{"input_ids", Tensor::from(ids, shape)}, {"attention_mask", Tensor::from(mask, shape)}};
}

NamedTensors prompts_of(std::span<const Encoding> encodings, const Model& model, const Tokenizer& tokenizer) {
  std::vector<TokenIds> rows;
  for (const Encoding& encoding : encodings) rows.push_back(encoding.ids);
  return prompts_of(rows, model, tokenizer);
}

NamedTensors prompts_of_texts(const Json& json, const Model& model, const Tokenizer& tokenizer,
                              const std::string& where) {
  for (const auto& [name, value] : json.items())
    if (name != "text") fail("{}: unknown field {} beside \"text\"", where, quoted(name));
  const Json texts = json["text"].is_array() ? json["text"] : Json::array({json["text"]});
  std::vector<std::string> strings;
  for (const Json& text : texts) {
    if (!text.is_string()) fail("{}: text: expected a string or a list of strings", where);
    strings.push_back(text.get<std::string>());
  }
  if (strings.empty()) fail("{}: text: expected at least one text", where);
  return prompts_of(tokenizer.encode_batch(strings), model, tokenizer);
}

}  // namespace transom
