// SPDX-License-Identifier: Apache-2.0
// run_translation, run_summarization: pairs of texts for encoder-decoders; and T5's pre-training on plain text.
#include "base/error.h"
#include "data/span_corruption.h"
#include "data/text_pairs.h"
#include "train/tasks.h"
#include "train/text_blocks.h"
#include "train/text_features.h"

namespace transom {
namespace {

bool is_blank(const Value& value) { return text_of(value).empty(); }

// Rows without a source or a target are left out, as run_summarization does.
Dataset without_blanks(const Dataset& data, const TextPairColumns& columns) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Row row = data.row(i);
    if (!is_blank(row[columns.source]) && !(columns.target && is_blank(row[*columns.target]))) kept.push_back(i);
  }
  require(!kept.empty(), "{}: expected pairs of texts, found blank ones only", data.name());
  return kept.size() == static_cast<size_t>(data.size()) ? data : data.select(std::move(kept));
}

TrainingData pairs(const Dataset& given, const TextEncoder& encoder, const TrainArguments& arguments,
                   int64_t max_target_length, bool blanks) {
  const ScriptArguments& script = arguments.script;
  const TextPairColumns columns = text_pair_columns(given, script);
  require(columns.target.has_value(), "{}: expected a column of source texts and one of targets, found one only",
          given.name());
  const Dataset data = blanks ? given : without_blanks(given, columns);
  const bool to_max = script.pad_to_max_length.value_or(false);
  PaddingOptions padding = encoder.padding(false);
  padding.separate_labels = true;
  if (!script.ignore_pad_token_for_loss) padding.label_fill = padding.pad_token_id;
  if (to_max) padding.max_length = script.max_source_length, padding.max_label_length = max_target_length;
  const auto encode = [encoder](const std::string& text, int64_t longest) {
    return encoder.tokenizer().encode(text, std::nullopt,
                                      {.truncation = Truncation::kLongestFirst, .max_length = longest});
  };
  return text_rows(data, arguments, padding,
                   [data, columns, encoder, encode, max_target_length, prefix = script.source_prefix.value_or(""),
                    max_source_length = script.max_source_length](int64_t i) {
                     const Row row = data.row(i);
                     Features features =
                         encoder.features(encode(prefix + text_of(row[columns.source]), max_source_length));
                     features.sequences["labels"] = encode(text_of(row[*columns.target]), max_target_length).ids;
                     return features;
                   });
}

// T5's: blocks of plain text, of which spans are cut out anew for every batch.
void prepare_span_corruption(const TrainArguments& arguments, const TaskFiles& files, const TextEncoder& encoder,
                             TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const auto sentinel = encoder.tokenizer().token_to_id("<extra_id_0>"), end = encoder.tokenizer().eos_token_id();
  require(sentinel && end, "{}: expected a tokenizer with <extra_id_0> and an end token, as T5's, found none",
          script.model_name_or_path);
  const SpanCorruption options{.noise_density = script.mlm_probability,
                               .mean_span_length = script.mean_noise_span_length,
                               .first_sentinel = *sentinel,
                               .eos_token_id = *end};
  const SpanLengths lengths = span_lengths(encoder.max_length(), options);
  const auto encode = [&](const std::string& text) {
    Features features;
    features.sequences["input_ids"] = encoder.tokenizer().encode(text).ids;
    return features;
  };
  const auto rows = [&](const Dataset& data, std::optional<int64_t> limit) {
    TrainingData result = first_rows(held_rows(cut_into_blocks(data, text_column(data, script), lengths.tokens,
                                                               "max_seq_length and what is cut out", encode),
                                               {}),
                                     limit);
    result.augment = [options, seed = arguments.training.seed](Batch& batch, uint64_t draw) {
      Mt19937 generator = generator_of(seed, draw);
      batch.sequences["labels"] = corrupt_spans(batch.sequences.at("input_ids"), options, generator);
      batch.sequences.erase("attention_mask");
    };
    return result;
  };
  if (files.train) setup.train = rows(*files.train, script.max_train_samples);
  if (files.validation) setup.validation = rows(*files.validation, script.max_eval_samples);
  setup.complete_evaluation = add_perplexity;
}

Dataset limited(const Dataset& data, std::optional<int64_t> limit) {
  return limit ? data.first(std::min(*limit, data.size())) : data;
}

}  // namespace

void score_loss_only(TaskSetup& setup) {
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
}

void prepare_sequence_to_sequence(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const bool of_language = script.span_corruption || script.task == "fill-mask";
  const std::string task = script.task.value_or(script.summary_column ? "summarization" : "translation");
  if (script.predict_with_generate)
    fail(ErrorKind::kUsage, "--predict_with_generate: texts are not generated during training yet; use transom run");
  setup.model = Model::from_pretrained(script.model_name_or_path,
                                       load_options(arguments, of_language ? "text2text-generation" : task));
  const TextEncoder encoder(arguments, *setup.model, std::nullopt);
  encoder.save_into(setup);
  score_loss_only(setup);
  if (of_language) return prepare_span_corruption(arguments, files, encoder, setup);
  const int64_t longest = script.max_target_length;
  const bool blanks = task != "summarization";
  if (files.train)
    setup.train = pairs(limited(*files.train, script.max_train_samples), encoder, arguments, longest, blanks);
  if (files.validation)
    setup.validation = pairs(limited(*files.validation, script.max_eval_samples), encoder, arguments,
                             script.val_max_target_length.value_or(longest), blanks);
}

}  // namespace transom
