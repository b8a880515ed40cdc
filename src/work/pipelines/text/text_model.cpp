// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/text_model.h"

#include <algorithm>
#include <future>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/threads/prefetcher.h"
#include "files/config/config.h"
#include "models/loading/maximum_tokens.h"
#include "models/loading/weights/missing_weights.h"
#include "models/records.h"
#include "work/pipelines/pipeline.h"

namespace transom {

TextModel TextModel::load(const std::string& directory, const LoadOptions& options,
                          const TokenizerOptions& of_tokenizer) {
  std::future<Tokenizer> tokenizer = std::async([&] { return Tokenizer::from_pretrained(directory, of_tokenizer); });
  std::unique_ptr<Model> model = load_trained(directory, options);
  return {std::move(model), tokenizer.get()};
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

NamedTensors TextModel::inputs_of(const std::vector<const Encoding*>& batch, std::optional<Side> side) const {
  const bool left = side.value_or(tokenizer.padding_side()) == Side::kLeft;
  const LengthBuckets bucket = buckets();
  NamedTensors inputs;
  for (const std::string& name : tokenizer.model_input_names()) {
    if (name == "input_ids")
      inputs.set(name, padded(batch, &Encoding::ids, tokenizer.pad_token_id().value_or(0), left, bucket));
    else if (name == "attention_mask") inputs.set(name, mask_of(batch, side));
    else if (name == "token_type_ids" && model->config().get_int("type_vocab_size", 1) > 1)
      inputs.set(name, padded(batch, &Encoding::type_ids, 0, left, bucket));
  }
  return inputs;
}

Tensor TextModel::mask_of(const std::vector<const Encoding*>& batch, std::optional<Side> side) const {
  return padded(batch, &Encoding::attention_mask, 0, side.value_or(tokenizer.padding_side()) == Side::kLeft, buckets());
}

std::vector<Encoding> windows_of(Encoding&& first) {
  std::vector<Encoding> windows = std::move(first.overflowing);
  windows.insert(windows.begin(), std::move(first));
  return windows;
}

namespace {

Truncation truncation_of(const TaskOptions& options, bool with_length) {
  if (!is_given(options, "truncation")) return with_length ? Truncation::kLongestFirst : Truncation::kNone;
  const TaskOptions::Value& given = *options.find("truncation");
  if (const bool* cuts = std::get_if<bool>(&given)) return *cuts ? Truncation::kLongestFirst : Truncation::kNone;
  const std::string* word = std::get_if<std::string>(&given);
  if (word && *word == "longest_first") return Truncation::kLongestFirst;
  if (word && *word == "only_first") return Truncation::kOnlyFirst;
  if (word && *word == "only_second") return Truncation::kOnlySecond;
  if (word && *word == "do_not_truncate") return Truncation::kNone;
  fail("truncation: expected true, false, longest_first, only_first, only_second or do_not_truncate, found {}",
       quoted(shown_value(given)));
}

// Alone, texts are not padded to each other; to max_length they are.
struct GivenPadding {
  bool pads = false, to_length = false;
};
GivenPadding padding_of(const TaskOptions& options) {
  if (!is_given(options, "padding")) return {};
  const TaskOptions::Value& given = *options.find("padding");
  if (const bool* pads = std::get_if<bool>(&given)) return {.pads = *pads};
  const std::string* word = std::get_if<std::string>(&given);
  if (!word || (*word != "max_length" && *word != "longest" && *word != "do_not_pad"))
    fail("padding: expected true, false, longest, max_length or do_not_pad, found {}", quoted(shown_value(given)));
  return {.pads = *word != "do_not_pad", .to_length = *word == "max_length"};
}

}  // namespace

EncodeOptions encode_options(const TaskOptions& given, const TextModel& model) {
  const int64_t length = int_option(given, "max_length", 0);
  if (length < 0 || (length == 0 && given.contains("max_length")))
    fail("max_length: expected a number above 0, found {}", length);
  const GivenPadding padding = padding_of(given);
  EncodeOptions options;
  options.truncation = truncation_of(given, length > 0 && !padding.pads);
  const std::optional<int64_t> limit = model.max_length();
  if (options.truncation != Truncation::kNone) {
    options.max_length = length > 0 ? std::min(length, longest_positions(*model.model).value_or(length)) : limit;
    if (!options.max_length) options.truncation = Truncation::kNone;  // nothing is too long
  } else {
    refuse_without_effect(given, {"truncation_side"}, "without truncation true");
  }
  if (padding.to_length) {
    options.padding = Padding::kMaxLength;
    if (!options.max_length) options.max_length = length > 0 ? std::optional(length) : limit;
  } else if (length > 0 && options.truncation == Truncation::kNone) {
    fail(ErrorKind::kUsage, "max_length: has no effect without truncation true or padding max_length");
  }
  if (const std::string side = text_option(given, "truncation_side", ""); !side.empty()) {
    if (side != "left" && side != "right") fail("truncation_side: expected left or right, found {}", quoted(side));
    options.truncation_side = side == "left" ? Side::kLeft : Side::kRight;
  }
  return options;
}

EncodeOptions encode_options_of_object(const Json& given, const char* name, const TextModel& model) {
  if (!given.is_null() && !given.is_object()) fail("{}: expected an object, found {}", name, quoted(dump_json(given)));
  static const std::vector<std::string> known{"truncation", "truncation_side", "max_length", "padding",
                                              "add_special_tokens"};
  TaskOptions fields;
  for (const auto& [key, value] : given.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ErrorKind::kUnsupported, "{}: {} is not supported; {} are", name, quoted(key), fmt::join(known, ", "));
    fields.set(key, value_of_json({.name = key, .type = TaskParameter::Type::kJson, .help = ""}, value));
  }
  EncodeOptions options = encode_options(fields, model);
  options.add_special_tokens = flag_option(fields, "add_special_tokens", true);
  return options;
}

void expect_positions(const Encoding& encoding, const TextModel& model, const char* remedy) {
  const std::optional<int64_t> most = longest_positions(*model.model);
  if (most && static_cast<int64_t>(encoding.size()) > *most)
    fail("a text has {} tokens, and the model takes at most {}: shorten it{}", encoding.size(), *most, remedy);
}

Encoding TextModel::first_part(std::string_view text, std::optional<std::string_view> pair, EncodeOptions options,
                               const char* remedy) const {
  options.return_overflowing_tokens = true;
  Encoding encoding = tokenizer.encode(text, pair, options);
  warn_of_rest(encoding, remedy);
  return encoding;
}

void TextModel::warn_of_rest(Encoding& encoding, const char* remedy) const {
  if (!encoding.overflowing.empty() && !told_->exchange(true))
    log(LogLevel::kWarning, fmt::format("of a long text only the first {} tokens are read{}", encoding.size(), remedy));
  encoding.overflowing.clear();
}

}  // namespace transom
