// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/text/text_features.h"

#include <limits>
#include <span>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "models/loading/maximum_tokens.h"
#include "models/loading/weights/missing_weights.h"
#include "runtime/device/static_shapes.h"
#include "transom/ops.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/setup/adapters.h"
#include "work/train/tasks/text/special_tokens.h"

namespace transom {
namespace {

constexpr int64_t kLongestByDefault = 1024;  // of tokenizers that allow more: run_mlm's and run_swag's limit

}  // namespace

TextEncoder::TextEncoder(const TrainArguments& arguments, const Model& model, std::optional<int64_t> otherwise,
                         const TokenizerOptions& options)
    : arguments_(arguments.script),
      tokenizer_(
          Tokenizer::from_pretrained(arguments_.tokenizer_name.value_or(arguments_.model_name_or_path), options)) {
  const int64_t positions = maximum_tokens(model.config()).value_or(std::numeric_limits<int64_t>::max());
  const int64_t limit = std::min(positions, tokenizer_.model_max_length().value_or(positions));
  max_length_ =
      std::min(limit, arguments_.max_seq_length.value_or(otherwise.value_or(std::min(limit, kLongestByDefault))));
  if (is_given(arguments, "max_seq_length") && arguments_.max_seq_length > limit)
    log(LogLevel::kWarning, fmt::format("--max_seq_length {}: the model takes at most {} tokens, where rows are cut",
                                        *arguments_.max_seq_length, limit));
  const auto& names = tokenizer_.model_input_names();
  takes_types_ = std::count(names.begin(), names.end(), "token_type_ids") > 0;
}

Encoding TextEncoder::encode(const std::string& first, const std::optional<std::string>& second,
                             const EncodeOptions& options) const {
  if (!second) return tokenizer_.encode(first, std::nullopt, options);
  // One row of a batch: Tokenizer::encode takes an empty second text for none, as Transformers does for a single row.
  return std::move(tokenizer_.encode_batch(std::span(&first, 1), std::span(&*second, 1), options)[0]);
}

Features TextEncoder::features(Encoding&& encoding) const {
  Features features;
  features.sequences["input_ids"] = std::move(encoding.ids);
  features.sequences["attention_mask"] = std::move(encoding.attention_mask);
  if (takes_types_) features.sequences["token_type_ids"] = std::move(encoding.type_ids);
  return features;
}

PaddingOptions TextEncoder::padding(bool to_max_length) const {
  PaddingOptions padding{.pad_token_id = tokenizer_.pad_token_id().value_or(0),
                         .left = tokenizer_.padding_side() == Side::kLeft};
  padding.multiple_of = arguments_.pad_to_multiple_of;
  if (to_max_length) padding.max_length = max_length_;
  else padding.bucket = length_buckets(arguments_.length_buckets, max_length_);
  return padding;
}

void TextEncoder::save_into(TaskSetup& setup) const {
  // A configuration of two models has ids of neither.
  if (setup.model && !setup.model->config().has("text_config")) align_special_tokens(*setup.model, tokenizer_);
  setup.save_tokenizer = [tokenizer = tokenizer_](const std::string& directory) {
    tokenizer.save_pretrained(directory);
  };
}

TrainingData held_rows(std::vector<Features> rows, const PaddingOptions& padding) {
  TrainingData result;
  result.rows = static_cast<int64_t>(rows.size());
  for (const Features& row : rows) result.lengths.push_back(static_cast<int64_t>(row.sequences.at("input_ids").size()));
  result.batch = [held = std::make_shared<const std::vector<Features>>(std::move(rows)),
                  padding](const std::vector<int64_t>& indices) {
    std::vector<Features> features;
    for (const int64_t index : indices) features.push_back((*held)[static_cast<size_t>(index)]);
    return collate(features, padding);
  };
  return result;
}

TrainingData text_rows(const Dataset& data, const TrainArguments& arguments, const PaddingOptions& padding,
                       std::function<Features(int64_t)> make) {
  if (data.in_memory()) return held_rows(map_rows(data.size(), make), padding);
  TrainingData result;
  result.rows = data.size();
  if (arguments.training.train_sampling_strategy == "group_by_length")
    result.lengths = map_rows(
        data.size(), [&](int64_t i) { return static_cast<int64_t>(make(i).sequences.at("input_ids").size()); });
  result.batch = [make = std::move(make), padding](const std::vector<int64_t>& indices) {
    std::vector<Features> features(indices.size());
    parallel_for(indices.size(), [&](size_t i) { features[i] = make(indices[i]); });
    return collate(features, padding);
  };
  return result;
}

LoadOptions load_options(const TrainArguments& arguments, const std::string& task) {
  return {.task = task,
          .ignore_mismatched_sizes = arguments.script.ignore_mismatched_sizes,
          .seed = static_cast<uint64_t>(arguments.training.seed),
          .dtype = arguments.training.do_train ? "float32" : arguments.script.dtype,
          .quantization =
              arguments.training.do_train ? quantization_in_training(arguments.script) : arguments.script.quantization,
          // A model is evaluated as it will answer; only scales of inputs that the checkpoint holds are part of it.
          .activations = arguments.training.do_train ? "float32" : "static",
          .keep_adapters = true};
}

void expect_weights(const TrainArguments& arguments, const Model& model, const LoadReport& report,
                    const std::string& where, const std::string& task) {
  if (!arguments.training.do_train) return expect_trained(model, report, where, task);
  // What is missing there comes from the checkpoint of the run.
  if (!arguments.training.resume_from_checkpoint) expect_trained_body(model, report, where);
}

std::unique_ptr<Model> load_model(const TrainArguments& arguments, const std::string& directory,
                                  const LoadOptions& options) {
  LoadReport report;
  std::unique_ptr<Model> model = load_base_model(arguments, directory, options, &report);
  expect_weights(arguments, *model, report, directory, options.task);
  return model;
}

const Predictions::Array* find_output(const Predictions& predictions, std::string_view name) {
  const auto& outputs = predictions.outputs;
  const auto found =
      std::find_if(outputs.begin(), outputs.end(), [&](const auto& array) { return array.name == name; });
  return found == outputs.end() ? nullptr : &*found;
}

std::vector<int64_t> largest(const std::vector<float>& values, int64_t width) {
  std::vector<int64_t> result;
  for (auto row = values.begin(); row != values.end(); row += width)
    result.push_back(std::max_element(row, row + width) - row);
  return result;
}

NamedTensors predicted_classes(const NamedTensors& outputs) {
  return {{"predictions", arg_max(outputs.at("logits"), -1)}};
}

Metrics as_metrics(const LogRecord& record) {
  Metrics metrics;
  for (const auto& [name, value] : record)
    if (const auto number = find_number(record, name)) metrics.emplace_back(name, *number);
  return metrics;
}

}  // namespace transom
