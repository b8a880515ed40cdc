// SPDX-License-Identifier: Apache-2.0
#include "pipelines/pipeline.h"

#include <algorithm>
#include <cmath>
#include <future>

#include "base/error.h"
#include "base/json.h"
#include "io/config.h"
#include "models/maximum_tokens.h"

namespace transom {
namespace {

struct Task {
  std::string_view name, alias;
  std::unique_ptr<Pipeline> (*make)(const std::string& directory, const LoadOptions& options);
  std::string_view head = {};  // the task whose head the model needs; empty: that of this name
};

template <std::unique_ptr<Pipeline> (*make)(TextModel model)>
std::unique_ptr<Pipeline> of_text(const std::string& directory, const LoadOptions& options) {
  return make(TextModel::load(directory, options));
}

template <std::unique_ptr<Pipeline> (*make)(TextModel model, const std::string& directory)>
std::unique_ptr<Pipeline> of_text_in_directory(const std::string& directory, const LoadOptions& options) {
  return make(TextModel::load(directory, options), directory);
}

template <const char* task>
std::unique_ptr<Pipeline> to_text(const std::string& directory, const LoadOptions& options) {
  return make_text_to_text(task, directory, options);
}
constexpr char kText2Text[] = "text2text-generation", kSummarization[] = "summarization",
               kTranslation[] = "translation";

constexpr Task kTasks[] = {
    {"text-classification", "sentiment-analysis", of_text<make_text_classification>},
    {"token-classification", "ner", of_text<make_token_classification>},
    {"question-answering", "", of_text<make_question_answering>},
    {"fill-mask", "", of_text<make_fill_mask>},
    {"feature-extraction", "", of_text_in_directory<make_feature_extraction>},
    {"sentence-similarity", "", of_text_in_directory<make_sentence_similarity>, "feature-extraction"},
    {"zero-shot-classification", "", of_text<make_zero_shot_classification>},
    {"image-classification", "", make_image_classification},
    {"image-feature-extraction", "", make_image_feature_extraction},
    {"zero-shot-image-classification", "", make_zero_shot_image_classification},
    {"audio-classification", "", make_audio_classification},
    {"automatic-speech-recognition", "asr", make_automatic_speech_recognition},
    {"text-generation", "", make_text_generation},
    {kText2Text, "", to_text<kText2Text>},
    {kSummarization, "", to_text<kSummarization>},
    {kTranslation, "", to_text<kTranslation>},
};

}  // namespace

TextModel TextModel::load(const std::string& directory, const LoadOptions& options) {
  std::future<Tokenizer> tokenizer = std::async([&] { return Tokenizer::from_pretrained(directory); });
  std::unique_ptr<Model> model = Model::from_pretrained(directory, options);
  return {std::move(model), tokenizer.get()};
}

std::vector<std::string> pipeline_tasks() {
  std::vector<std::string> names;
  for (const Task& task : kTasks) names.emplace_back(task.name);
  return names;
}

std::unique_ptr<Pipeline> make_pipeline(const std::string& name, const std::string& model, const HubOptions& hub) {
  for (const Task& task : kTasks)
    if (name == task.name || (!task.alias.empty() && name == task.alias)) {
      LoadOptions options;
      options.task = task.head.empty() ? task.name : task.head;
      return task.make(resolve_model(model, hub), options);
    }
  // translation_en_to_fr: one of the tasks that config.json keeps a prefix for.
  if (name.starts_with("translation_") && name.find("_to_") != name.npos) {
    LoadOptions options;
    options.task = kTranslation;
    return make_text_to_text(name, resolve_model(model, hub), options);
  }
  fail(ErrorKind::kUsage, "unknown task {}{} Known are: {}", quoted(name), did_you_mean(name, pipeline_tasks()),
       fmt::join(pipeline_tasks(), ", "));
}

namespace {

void check_parameters(const Pipeline& pipeline, const Json& parameters) {
  const std::vector<std::string> known = pipeline.parameter_names();
  if (!parameters.is_object()) fail("parameters: expected an object");
  for (const auto& [name, value] : parameters.items())
    if (name != "batch_size" && std::find(known.begin(), known.end(), name) == known.end())
      fail("unknown parameter {}{} This task takes: {}", quoted(name), did_you_mean(name, known),
           fmt::join(known, ", "));
  batch_size_of(parameters);
}

}  // namespace

Json Pipeline::joined(std::vector<Json> results) const { return results; }

std::vector<Json> Pipeline::run_all(const std::vector<Json>& inputs, const Json& parameters) const {
  std::vector<Json> results;
  for (const Json& input : inputs) results.push_back(run(input, parameters));
  return results;
}

Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters) {
  check_parameters(pipeline, parameters);
  return pipeline.run(input, parameters);
}

std::vector<Json> run_pipeline(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters) {
  check_parameters(pipeline, parameters);
  return pipeline.run_all(inputs, parameters);
}

std::optional<int64_t> TextModel::max_length() const {
  // Positions that are turned, or counted from each other, have no last one.
  const Config& config = model->config();
  const std::string type = config.get_string("model_type", "");
  const bool endless =
      type == "modernbert" || (type == "deberta-v2" && !config.get_bool("position_biased_input", true));
  const int64_t limit = endless ? 0 : maximum_tokens(config).value_or(0);
  const int64_t own = tokenizer.model_max_length().value_or(0);
  const int64_t length = own > 0 && limit > 0 ? std::min(own, limit) : std::max(own, limit);
  return length > 0 ? std::optional(length) : std::nullopt;
}

TextModel::Result TextModel::operator()(const std::string& text, const std::optional<std::string>& pair,
                                        Truncation truncation) const {
  const EncodeOptions options{.truncation = truncation, .max_length = max_length()};
  return (*this)(tokenizer.encode(text, pair ? std::optional<std::string_view>(*pair) : std::nullopt, options));
}

TextModel::Result TextModel::operator()(Encoding encoding) const {
  const NoGradient inference;
  NamedTensors outputs = model->forward(inputs_of({&encoding}));
  return {std::move(encoding), std::move(outputs)};
}

std::vector<std::vector<float>> TextModel::rows(const std::vector<Encoding>& encodings, const std::string& name,
                                                int64_t batch_size) const {
  const NoGradient inference;
  const bool left = tokenizer.padding_side() == Side::kLeft;
  std::vector<std::vector<float>> result;
  for (size_t first = 0; first < encodings.size();) {
    std::vector<const Encoding*> batch;
    while (first < encodings.size() && batch.size() < static_cast<size_t>(batch_size))
      batch.push_back(&encodings[first++]);
    const Tensor output = model->forward(inputs_of(batch)).at(name);
    const std::vector<float> values = output.to_vector<float>();
    const size_t row = values.size() / batch.size(), T = output.rank() < 3 ? 1 : static_cast<size_t>(output.dim(1));
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t own = output.rank() < 3 ? 1 : batch[i]->size(), before = left ? T - own : 0;
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i * row + before * (row / T));
      result.emplace_back(begin, begin + static_cast<ptrdiff_t>(own * (row / T)));
    }
  }
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

std::vector<double> softmax_of(const std::vector<float>& logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double total = 0;
  for (const float x : logits) total += result.emplace_back(std::exp(x - highest));
  for (double& x : result) x /= total;
  return result;
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

int64_t batch_size_of(const Json& parameters) {
  const auto found = parameters.find("batch_size");
  if (found == parameters.end() || found->is_null()) return 1;
  const int64_t size = int_parameter(parameters, "batch_size", 1);
  if (size < 1) fail("batch_size: expected a number above 0, found {}", size);
  return size;
}

std::string text_input(const Json& input, const std::string& field) {
  if (input.is_string()) return input.get<std::string>();
  if (input.is_object() && input.contains(field) && input[field].is_string()) return input[field].get<std::string>();
  fail("expected a text, or an object with the string \"{}\"; found {}", field, quoted(dump_json(input)));
}

int64_t int_parameter(const Json& parameters, const char* name, int64_t otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (!found->is_number_integer())
    fail("parameter {}: expected a whole number, found {}", name, quoted(dump_json(*found)));
  return found->get<int64_t>();
}

std::string string_parameter(const Json& parameters, const char* name, const std::string& otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end() || found->is_null()) return otherwise;
  if (!found->is_string()) fail("parameter {}: expected a string, found {}", name, quoted(dump_json(*found)));
  return found->get<std::string>();
}

bool bool_parameter(const Json& parameters, const char* name, bool otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (!found->is_boolean()) fail("parameter {}: expected true or false, found {}", name, quoted(dump_json(*found)));
  return found->get<bool>();
}

}  // namespace transom
