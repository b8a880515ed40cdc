// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "files/config/model_config.h"
#include "files/hub/adapters.h"
#include "inputs/data/text/masking.h"
#include "models/records.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_blocks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr const char *kSpecial = "special_tokens_mask", *kWords = "word_ids";

// Its tokens, and what masking needs to know of them.
Features encode_text(const TextEncoder& encoder, const std::string& text, bool truncate, bool words) {
  Encoding encoding = encoder.tokenizer().encode(
      text, std::nullopt,
      {.truncation = truncate ? Truncation::kLongestFirst : Truncation::kNone, .max_length = encoder.max_length()});
  std::vector<int64_t> special = std::move(encoding.special_tokens_mask), word_ids = std::move(encoding.word_ids);
  Features features = encoder.features(std::move(encoding));
  features.sequences[kSpecial] = std::move(special);
  if (words) features.sequences[kWords] = std::move(word_ids);
  return features;
}

// Every line that is not blank is a row.
TrainingData lines(const Dataset& given, const TextEncoder& encoder, const TrainArguments& arguments) {
  const size_t column = text_column(given, arguments.script);
  const Dataset data = given.with_text(column);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < data.size(); ++i)
    if (text_of(data, i, data.row(i), column).find_first_not_of(" \t\r\n\f\v") != std::string::npos) kept.push_back(i);
  require(!kept.empty(), "{}: expected lines of text, found blank ones only", data.name());
  const Dataset text = data.select(std::move(kept));
  return text_rows(text, arguments, encoder.padding(),
                   [text, encoder, column, words = arguments.script.whole_word_mask](int64_t i) {
                     return encode_text(encoder, text_of(text, i, text.row(i), column), true, words);
                   });
}

void mask(Batch& batch, const MaskingOptions& options, Mt19937 generator) {
  PaddedRows special = batch.sequences.at(kSpecial);
  const PaddedRows& attended = batch.sequences.at("attention_mask");
  for (size_t i = 0; i < special.values.size(); ++i)
    if (attended.values[i] == 0) special.values[i] = 1;
  const auto words = batch.sequences.find(kWords);
  batch.sequences["labels"] = mask_tokens(batch.sequences.at("input_ids"), special, options, generator,
                                          words == batch.sequences.end() ? nullptr : &words->second);
  batch.sequences.erase(kSpecial);
  batch.sequences.erase(kWords);
}

// Accuracy at the tokens that were masked.
Metrics masked_accuracy(const Predictions& predictions) {
  const auto& found = find_output(predictions, "predictions")->values;
  std::vector<int64_t> labels, predicted;
  for (size_t i = 0; i < predictions.labels.size(); ++i) {
    if (predictions.labels[i] == kIgnoredLabel) continue;
    labels.push_back(predictions.labels[i]);
    predicted.push_back(static_cast<int64_t>(found[i]));
  }
  if (labels.empty()) return {};
  return {{"accuracy", accuracy(labels, predicted)}};
}

// Where there is no mask whole spans are cut out.
bool is_span_model(const ScriptArguments& script) {
  const Family* family = find_family(read_model_config(base_of_adapters(script.model_name_or_path)));
  return family && *family->processors.spans;
}

}  // namespace

void prepare_masked_language_modelling(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (is_span_model(script) && arguments.training.max_predictions_per_seq > 0)
    fail(ErrorKind::kUsage, "--max_predictions_per_seq: {} writes spans and has no masked positions",
         script.model_name_or_path);
  if (is_span_model(script)) return prepare_sequence_to_sequence(arguments, files, setup);
  setup.reads = read_text_column(files, script);
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "fill-mask"));
  const TextEncoder encoder(arguments, *setup.model, std::nullopt);
  const auto mask_token = encoder.tokenizer().special_token_id("mask");
  require(mask_token.has_value(), "{}: expected a tokenizer with a mask token, found none", script.model_name_or_path);
  const MaskingOptions masking{.probability = script.mlm_probability,
                               .mask_token_id = *mask_token,
                               .vocabulary = encoder.tokenizer().vocab_size(),
                               .most = arguments.training.max_predictions_per_seq};
  const auto encode_whole = [&](const std::string& text) {
    return encode_text(encoder, text, false, script.whole_word_mask);
  };
  const auto rows = [&](const Dataset& data, std::optional<int64_t> limit) {
    TrainingData result = script.line_by_line
                              ? lines(data, encoder, arguments)
                              : held_rows(cut_into_blocks(data, text_column(data, script), encoder.max_length(),
                                                          "max_seq_length", encode_whole),
                                          encoder.padding());
    result = first_rows(std::move(result), limit);
    result.augment = [masking, seed = arguments.training.seed](Batch& batch, uint64_t draw) {
      mask(batch, masking, generator_of(seed, draw));
    };
    return result;
  };
  if (files.train) setup.train = rows(*files.train, script.max_train_samples);
  if (files.validation) setup.validation = rows(*files.validation, script.max_eval_samples);
  setup.preprocess_outputs = predicted_classes;
  setup.compute_metrics = masked_accuracy;
  setup.metric_names = {"accuracy"};
  setup.complete_evaluation = add_perplexity;
  encoder.save_into(setup);
}

}  // namespace transom
