// SPDX-License-Identifier: Apache-2.0
#include "pipelines/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "io/config.h"

namespace transom {
namespace {

struct Task {
  std::string_view name, alias;
  std::unique_ptr<Pipeline> (*make)(const std::string& directory, const LoadOptions& options);
};

template <std::unique_ptr<Pipeline> (*make)(TextModel model)>
std::unique_ptr<Pipeline> of_text(const std::string& directory, const LoadOptions& options) {
  return make({Model::from_pretrained(directory, options), Tokenizer::from_pretrained(directory)});
}

constexpr Task kTasks[] = {
    {"text-classification", "sentiment-analysis", of_text<make_text_classification>},
    {"token-classification", "ner", of_text<make_token_classification>},
    {"question-answering", "", of_text<make_question_answering>},
    {"fill-mask", "", of_text<make_fill_mask>},
    {"feature-extraction", "",
     [](const std::string& directory, const LoadOptions& options) {
       return make_feature_extraction(
           {Model::from_pretrained(directory, options), Tokenizer::from_pretrained(directory)}, directory);
     }},
    {"zero-shot-classification", "", of_text<make_zero_shot_classification>},
    {"image-classification", "", make_image_classification},
    {"image-feature-extraction", "", make_image_feature_extraction},
    {"zero-shot-image-classification", "", make_zero_shot_image_classification},
};

}  // namespace

std::vector<std::string> pipeline_tasks() {
  std::vector<std::string> names;
  for (const Task& task : kTasks) names.emplace_back(task.name);
  return names;
}

std::unique_ptr<Pipeline> make_pipeline(const std::string& name, const std::string& directory) {
  for (const Task& task : kTasks)
    if (name == task.name || (!task.alias.empty() && name == task.alias)) {
      LoadOptions options;
      options.task = task.name;
      return task.make(directory, options);
    }
  fail(ErrorKind::kUsage, "unknown task {}{} Known are: {}", quoted(name), did_you_mean(name, pipeline_tasks()),
       fmt::join(pipeline_tasks(), ", "));
}

Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters) {
  const std::vector<std::string> known = pipeline.parameter_names();
  if (!parameters.is_object()) fail("parameters: expected an object");
  for (const auto& [name, value] : parameters.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("unknown parameter {}{} This task takes: {}", quoted(name), did_you_mean(name, known),
           fmt::join(known, ", "));
  return pipeline.run(input, parameters);
}

int64_t TextModel::max_length() const {
  const Config& config = model->config();
  int64_t limit = config.get_int("max_position_embeddings", 0);
  // RoBERTa's positions begin behind the padding id.
  const std::string type = config.get_string("model_type", "");
  if (limit > 0 && (type == "roberta" || type == "xlm-roberta" || type == "camembert" || type == "mpnet"))
    limit -= config.get_int("pad_token_id", 1) + 1;
  const int64_t own = tokenizer.model_max_length().value_or(0);
  return own > 0 && limit > 0 ? std::min(own, limit) : std::max(own, limit);
}

TextModel::Result TextModel::operator()(const std::string& text, const std::optional<std::string>& pair,
                                        Truncation truncation) const {
  const EncodeOptions options{.truncation = truncation, .max_length = max_length()};
  return (*this)(tokenizer.encode(text, pair ? std::optional<std::string_view>(*pair) : std::nullopt, options));
}

TextModel::Result TextModel::operator()(Encoding encoding) const {
  const NoGradient inference;
  const auto length = static_cast<int64_t>(encoding.size());
  NamedTensors inputs;
  for (const std::string& name : tokenizer.model_input_names()) {
    if (name == "input_ids") inputs.set(name, Tensor::from(encoding.ids, {1, length}));
    else if (name == "attention_mask") inputs.set(name, Tensor::from(encoding.attention_mask, {1, length}));
    else if (name == "token_type_ids" && model->config().get_int("type_vocab_size", 1) > 1)
      inputs.set(name, Tensor::from(encoding.type_ids, {1, length}));
  }
  NamedTensors outputs = model->forward(inputs);
  return {std::move(encoding), std::move(outputs)};
}

std::vector<double> softmax_of(const std::vector<float>& logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double total = 0;
  for (const float x : logits) total += result.emplace_back(std::exp(x - highest));
  for (double& x : result) x /= total;
  return result;
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
