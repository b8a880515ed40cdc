// SPDX-License-Identifier: Apache-2.0
#include "pipelines/text/text_model.h"

#include <algorithm>
#include <future>

#include "base/error.h"
#include "base/json/json.h"
#include "base/threads/prefetcher.h"
#include "io/config.h"
#include "models/loading/maximum_tokens.h"
#include "models/loading/missing_weights.h"
#include "pipelines/pipeline.h"

namespace transom {

TextModel TextModel::load(const std::string& directory, const LoadOptions& options) {
  std::future<Tokenizer> tokenizer = std::async([&] { return Tokenizer::from_pretrained(directory); });
  std::unique_ptr<Model> model = load_trained(directory, options);
  return {std::move(model), tokenizer.get()};
}

std::optional<int64_t> longest_input(const Model& model, const Tokenizer& tokenizer) {
  // Positions that are turned, or counted from each other, have no last one.
  const Config& config = model.config();
  const std::string type = config.get_string("model_type", "");
  const bool endless =
      type == "modernbert" || (type == "deberta-v2" && !config.get_bool("position_biased_input", true));
  const int64_t limit = endless ? 0 : maximum_tokens(config).value_or(0);
  const int64_t own = tokenizer.model_max_length().value_or(0);
  const int64_t length = own > 0 && limit > 0 ? std::min(own, limit) : std::max(own, limit);
  return length > 0 ? std::optional(length) : std::nullopt;
}

namespace {

// The part of each row of a batch [B, ...], without what fills the batch up.
void add_output(const Tensor& output, bool left, TextModel::Unit unit, const std::vector<TextModel::Row*>& batch) {
  const std::vector<float> values = output.to_vector<float>();
  const size_t row = values.size() / static_cast<size_t>(output.dim(0));
  const size_t T = unit == TextModel::Unit::kToken ? static_cast<size_t>(output.dim(1)) : 1;
  size_t longest = 0;
  for (const TextModel::Row* one : batch) longest = std::max(longest, one->encoding.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t tokens = batch[i]->encoding.size();
    const size_t own = unit == TextModel::Unit::kToken ? tokens : 1;
    const size_t before = unit == TextModel::Unit::kToken && left ? longest - tokens : 0;
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * row + before * (row / T));
    batch[i]->outputs.emplace_back(begin, begin + static_cast<ptrdiff_t>(own * (row / T)));
  }
}

}  // namespace

std::vector<std::vector<TextModel::Row>> TextModel::rows(size_t count,
                                                         const std::function<std::vector<Encoding>(size_t)>& encode,
                                                         const std::vector<std::string>& outputs, Unit unit,
                                                         int64_t batch_size) const {
  const NoGradient inference;
  const bool left = tokenizer.padding_side() == Side::kLeft;
  Prefetcher<std::vector<Encoding>> encodings(
      static_cast<int64_t>(count), [&](int64_t i) { return encode(static_cast<size_t>(i)); }, 2 * batch_size);
  std::vector<std::vector<Row>> result(count);
  std::vector<Row*> batch;
  const auto run = [&] {
    std::vector<const Encoding*> parts;
    for (const Row* row : batch) parts.push_back(&row->encoding);
    const NamedTensors given = model->forward(inputs_of(parts));
    for (const std::string& name : outputs) add_output(given.at(name), left, unit, batch);
    batch.clear();
  };
  for (std::vector<Row>& rows : result) {
    for (Encoding& encoding : encodings.next()) rows.push_back({std::move(encoding), {}});
    for (Row& row : rows) {
      batch.push_back(&row);
      if (static_cast<int64_t>(batch.size()) == batch_size) run();
    }
  }
  if (!batch.empty()) run();
  return result;
}

std::vector<Encoding> TextModel::encode(const std::vector<std::string>& texts) const {
  return tokenizer.encode_batch(texts, {}, {.truncation = Truncation::kLongestFirst, .max_length = max_length()});
}

namespace {

// One field of the encodings as a matrix [B, T], filled up to the longest, and further where the device asks for few
// shapes: behind the tokens, so that they keep their places, and with copies of the last row.
Tensor padded(const std::vector<const Encoding*>& batch, std::vector<int64_t> Encoding::*field, int64_t filler,
              bool left, const LengthBuckets& bucket) {
  size_t longest = 0;
  for (const Encoding* encoding : batch) longest = std::max(longest, encoding->size());
  const auto length = bucket ? static_cast<size_t>(bucket(static_cast<int64_t>(longest))) : longest;
  const auto rows = bucket ? static_cast<size_t>(row_bucket(static_cast<int64_t>(batch.size()))) : batch.size();
  std::vector<int64_t> values(rows * length, filler);
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<int64_t>& row = batch[std::min(i, batch.size() - 1)]->*field;
    std::copy(row.begin(), row.end(),
              values.begin() + static_cast<ptrdiff_t>(i * length + (left ? longest - row.size() : 0)));
  }
  return Tensor::from(values, {static_cast<int64_t>(rows), static_cast<int64_t>(length)});
}

}  // namespace

// Only where a mask says what is padding, and no model looks for its last token by an id that it does not know.
LengthBuckets TextModel::buckets() const {
  const auto& names = tokenizer.model_input_names();
  const bool masked = std::find(names.begin(), names.end(), "attention_mask") != names.end();
  const bool knows_padding = tokenizer.pad_token_id() && model->config().get_int("pad_token_id", -1) >= 0;
  return masked && knows_padding ? length_buckets(std::nullopt, max_length()) : LengthBuckets();
}

NamedTensors TextModel::inputs_of(const std::vector<const Encoding*>& batch) const {
  const bool left = tokenizer.padding_side() == Side::kLeft;
  const LengthBuckets bucket = buckets();
  NamedTensors inputs;
  for (const std::string& name : tokenizer.model_input_names()) {
    if (name == "input_ids")
      inputs.set(name, padded(batch, &Encoding::ids, tokenizer.pad_token_id().value_or(0), left, bucket));
    else if (name == "attention_mask") inputs.set(name, mask_of(batch));
    else if (name == "token_type_ids" && model->config().get_int("type_vocab_size", 1) > 1)
      inputs.set(name, padded(batch, &Encoding::type_ids, 0, left, bucket));
  }
  return inputs;
}

Tensor TextModel::mask_of(const std::vector<const Encoding*>& batch) const {
  return padded(batch, &Encoding::attention_mask, 0, tokenizer.padding_side() == Side::kLeft, buckets());
}

std::vector<Encoding> windows_of(Encoding&& first) {
  std::vector<Encoding> windows = std::move(first.overflowing);
  windows.insert(windows.begin(), std::move(first));
  return windows;
}

EncodeOptions encode_options(const Json& parameters, const TextModel& model) {
  EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = model.max_length()};
  const Json truncation = parameters.value("truncation", Json()), padding = parameters.value("padding", Json());
  const std::string cut = truncation.is_string() ? truncation.get<std::string>() : "";
  if (cut == "only_first") options.truncation = Truncation::kOnlyFirst;
  else if (cut == "only_second") options.truncation = Truncation::kOnlySecond;
  else if (!truncation.is_null() && !truncation.is_boolean() && cut != "longest_first" && cut != "do_not_truncate")
    fail("truncation: expected true, false, longest_first, only_first, only_second or do_not_truncate, found {}",
         quoted(dump_json(truncation)));
  if (const std::string side = string_parameter(parameters, "truncation_side", ""); !side.empty()) {
    if (side != "left" && side != "right") fail("truncation_side: expected left or right, found {}", quoted(side));
    options.truncation_side = side == "left" ? Side::kLeft : Side::kRight;
  }
  if (const int64_t length = int_parameter(parameters, "max_length", 0); length != 0) {
    if (length < 1) fail("max_length: expected a number above 0, found {}", length);
    if (truncation != false && cut != "do_not_truncate" && !truncation.is_null())
      options.max_length = std::min(length, options.max_length.value_or(length));
    if (padding == "max_length") options.padding = Padding::kMaxLength, options.max_length = length;
  }
  if (!padding.is_null() && !padding.is_boolean() && padding != "max_length" && padding != "longest" &&
      padding != "do_not_pad")
    fail("padding: expected true, false, longest, max_length or do_not_pad, found {}", quoted(dump_json(padding)));
  return options;
}

}  // namespace transom
