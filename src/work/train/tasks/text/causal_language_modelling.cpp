// SPDX-License-Identifier: Apache-2.0
// run_clm: text joined into blocks, each of whose tokens is predicted from those before it.
#include "base/error.h"

#include <algorithm>
#include "inputs/data/text/masking.h"
#include "models/loading/maximum_tokens.h"
#include "models/records.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_blocks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kLongestBlock = 1024;

// The script's: the tokenizer's longest row, or what the model has positions for, at most 1024.
int64_t block_size_of(const ScriptArguments& script, const Tokenizer& tokenizer, const Model& model) {
  const std::optional<int64_t> longest = tokenizer.model_max_length();
  if (script.block_size) return longest ? std::min(*script.block_size, *longest) : *script.block_size;
  const int64_t positions = maximum_tokens(model.config()).value_or(kLongestBlock);
  return longest && *longest <= positions ? *longest : std::min(kLongestBlock, positions);
}

void add_labels(Batch& batch, std::optional<int64_t> pad_token_id) {
  if (!batch.sequences.contains("labels"))
    batch.sequences["labels"] = causal_labels(batch.sequences.at("input_ids"), pad_token_id);
}

// Accuracy of each token's prediction of the next.
Metrics next_token_accuracy(const Predictions& predictions) {
  const Predictions::Array* found = find_output(predictions, "predictions");
  if (!found || found->shape.size() != 2 || found->values.size() != predictions.labels.size()) return {};
  const auto width = static_cast<size_t>(found->shape[1]);
  std::vector<int64_t> labels, predicted;
  for (size_t i = 0; i + 1 < predictions.labels.size(); ++i) {
    if ((i + 1) % width == 0 || predictions.labels[i + 1] == kIgnoredLabel) continue;
    labels.push_back(predictions.labels[i + 1]);
    predicted.push_back(static_cast<int64_t>(found->values[i]));
  }
  if (labels.empty()) return {};
  return {{"accuracy", accuracy(labels, predicted)}};
}

}  // namespace

TrainingData with_causal_labels(TrainingData data, std::optional<int64_t> pad_token_id) {
  data.batch = [batch = std::move(data.batch), pad_token_id](const std::vector<int64_t>& rows) {
    Batch result = batch(rows);
    add_labels(result, pad_token_id);
    return result;
  };
  return data;
}

void score_causal_language_modelling(TaskSetup& setup) {
  setup.preprocess_outputs = predicted_classes;
  setup.compute_metrics = next_token_accuracy;
  setup.metric_names = {"accuracy"};
  setup.complete_evaluation = add_perplexity;
}

void prepare_causal_language_modelling(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  setup.reads = read_text_column(files, script);
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "text-generation"));
  const TextEncoder encoder(arguments, *setup.model, std::nullopt);
  const int64_t block_size = block_size_of(script, encoder.tokenizer(), *setup.model);
  const FamilyInputs& inputs = inputs_of(*setup.model);
  const bool takes_types = std::any_of(
      inputs.begin(), inputs.end(), [](const FamilyInput& input) { return input.kind == FamilyInput::Kind::kTypes; });
  const auto encode = [&](const std::string& text) {
    Features features = encoder.features(encoder.tokenizer().encode(text));
    if (!takes_types) features.sequences.erase("token_type_ids");
    return features;
  };
  const auto rows = [&](const Dataset& data, std::optional<int64_t> limit) {
    const size_t column = text_column(data, script);
    return first_rows(
        with_causal_labels(held_rows(cut_into_blocks(data, column, block_size, "block_size", encode), {}), {}), limit);
  };
  if (files.train) setup.train = rows(*files.train, script.max_train_samples);
  if (files.validation) setup.validation = rows(*files.validation, script.max_eval_samples);
  score_causal_language_modelling(setup);
  encoder.save_into(setup);
}

}  // namespace transom
