// SPDX-License-Identifier: Apache-2.0
// run_translation, run_summarization: pairs of texts for encoder-decoders; and T5's pre-training on plain text.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "files/hub/adapters.h"
#include "inputs/data/text/span_corruption.h"
#include "inputs/data/text/text_pairs.h"
#include "inputs/text/language_tokens.h"
#include "transom/generation.h"
#include "work/train/metrics/translation_metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_blocks.h"
#include "work/train/tasks/text/text_features.h"
#include "work/train/tasks/written_texts.h"

namespace transom {
namespace {

bool is_blank(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? text->empty() : std::holds_alternative<std::monostate>(value);
}

// The columns of both texts, as text; refused where they hold anything else.
Dataset with_texts(const Dataset& data, const TextPairColumns& columns) {
  const Dataset result = data.with_text(columns.source);
  return columns.target ? result.with_text(*columns.target) : result;
}

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

// The tokens of both languages, where the tokenizer is of a model of many: those of source_lang and target_lang.
struct PairLanguages {
  std::optional<LanguageTokens> tokens;
  int64_t source = 0, target = 0;
};

PairLanguages languages_of(const Tokenizer& tokenizer, const ScriptArguments& script) {
  PairLanguages languages;
  if (!script.source_lang && !script.target_lang) return languages;
  languages.tokens = LanguageTokens::of(tokenizer);
  if (!languages.tokens) return languages;
  require(script.source_lang && script.target_lang,
          "source_lang and target_lang: expected both, as the tokenizer of this model is of many languages");
  languages.source = languages.tokens->id_of(*script.source_lang, "source_lang");
  languages.target = languages.tokens->id_of(*script.target_lang, "target_lang");
  return languages;
}

TrainingData pairs(const Dataset& given, const TextEncoder& encoder, const TrainArguments& arguments,
                   int64_t max_target_length, bool blanks, bool to_predict = false) {
  const ScriptArguments& script = arguments.script;
  const TextPairColumns columns = text_pair_columns(given, script);
  require(columns.target || to_predict, "{}: expected a column of source texts and one of targets, found one only",
          given.name());
  const Dataset texts = with_texts(given, columns);
  const Dataset data = blanks ? texts : without_blanks(texts, columns);
  const bool to_max = script.pad_to_max_length.value_or(false);
  PaddingOptions padding = encoder.padding(false);
  padding.separate_labels = true;
  if (!script.ignore_pad_token_for_loss) padding.label_fill = padding.pad_token_id;
  if (to_max) padding.max_length = script.max_source_length, padding.max_label_length = max_target_length;
  const PairLanguages languages = languages_of(encoder.tokenizer(), script);
  const auto encode = [encoder, languages](const std::string& text, int64_t longest, bool target) {
    const EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = longest, .target = target};
    Encoding encoding = encoder.tokenizer().encode(text, std::nullopt, options);
    if (languages.tokens) languages.tokens->put(encoding, target ? languages.target : languages.source);
    return encoding;
  };
  return text_rows(
      data, arguments, padding,
      [data, columns, encoder, encode, max_target_length, prefix = script.source_prefix.value_or(""),
       max_source_length = script.max_source_length](int64_t i) {
        const Row row = data.row(i);
        Features features =
            encoder.features(encode(prefix + text_of(data, i, row, columns.source), max_source_length, false));
        features.sequences.erase("token_type_ids");  // no encoder-decoder takes them
        if (columns.target)
          features.sequences["labels"] = encode(text_of(data, i, row, *columns.target), max_target_length, true).ids;
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

// ---- evaluation with generated texts

std::string stripped(const std::string& text) {
  constexpr const char* kSpaces = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The rows of ids as texts, without special tokens and spaces at the ends.
template <typename Number>
std::vector<std::string> texts_of(const std::vector<Number>& ids, int64_t rows, const Tokenizer& tokenizer) {
  return texts_of_rows(ids, rows, [&](const TokenIds& tokens) { return stripped(tokenizer.decode(tokens, true)); });
}

// The scripts': BLEU of translations, ROUGE of summaries, and the mean length in tokens.
Metrics scores_of_texts(const Predictions& predictions, const Tokenizer& tokenizer, int64_t padding, bool summaries,
                        int64_t shown = 0) {
  const Predictions::Array* found = find_output(predictions, kWrittenTexts);
  if (!found || predictions.labels.empty() || predictions.rows == 0) return {};
  const auto rounded = [](double value) { return std::nearbyint(value * 1e4) / 1e4; };
  std::vector<std::string> references = texts_of(predictions.labels, predictions.rows, tokenizer),
                           written = texts_of(found->values, predictions.rows, tokenizer);
  show_samples(shown, references, written);
  Metrics metrics;
  const double same = exact_match(references, written);
  if (summaries) {
    for (auto* texts : {&references, &written})
      for (std::string& text : *texts) text = sentences_as_lines(text);
    const Rouge scores = rouge(references, written);
    metrics = {{"rouge1", rounded(100 * scores.rouge1)},
               {"rouge2", rounded(100 * scores.rouge2)},
               {"rougeL", rounded(100 * scores.rougeL)},
               {"rougeLsum", rounded(100 * scores.rougeLsum)}};
  } else {
    metrics = {{"bleu", rounded(bleu(references, written))}};
  }
  metrics.emplace_back("exact_match", rounded(same));
  const auto tokens = std::count_if(found->values.begin(), found->values.end(),
                                    [&](float id) { return id >= 0 && static_cast<int64_t>(id) != padding; });
  metrics.emplace_back("gen_len", rounded(static_cast<double>(tokens) / static_cast<double>(predictions.rows)));
  return metrics;
}

void evaluate_with_generate(const ScriptArguments& script, const TextEncoder& encoder, bool summaries,
                            TaskSetup& setup) {
  const Tokenizer& tokenizer = encoder.tokenizer();
  GenerationConfig config = GenerationConfig::from_pretrained(base_of_adapters(script.model_name_or_path).string());
  config.max_new_tokens.reset();
  config.max_length =
      script.generation_max_length.value_or(script.val_max_target_length.value_or(script.max_target_length));
  if (const auto beams = script.num_beams ? script.num_beams : script.generation_num_beams) config.num_beams = *beams;
  const PairLanguages languages = languages_of(tokenizer, script);
  if (languages.tokens && !config.forced_bos_token_id) config.forced_bos_token_id = languages.target;
  const int64_t padding = tokenizer.pad_token_id().value_or(config.pad_token_id.value_or(0));
  if (!config.pad_token_id) config.pad_token_id = padding;
  setup.predict = [model = setup.model.get(), config, padding](const NamedTensors& inputs) {
    return texts_that_are_written(*model, config, padding, inputs);
  };
  setup.compute_metrics = [tokenizer, padding, summaries,
                           shown = samples_to_show(script, 3)](const Predictions& predictions) {
    return scores_of_texts(predictions, tokenizer, padding, summaries, shown);
  };
  setup.write_predictions = [tokenizer, padding, summaries](const Predictions& predictions,
                                                            const std::filesystem::path& directory) {
    const auto written = texts_of(find_output(predictions, kWrittenTexts)->values, predictions.rows, tokenizer);
    write_file(directory / "generated_predictions.txt", fmt::format("{}", fmt::join(written, "\n")));
    return scores_of_texts(predictions, tokenizer, padding, summaries);
  };
}

std::string read_text_pair(const TaskFiles& files, const ScriptArguments& script) {
  const TextPairColumns columns = text_pair_columns(files.any(), script);
  for (const auto* data : {&files.train, &files.validation, &files.test})
    if (*data) {
      const TextPairColumns own = text_pair_columns(**data, script);
      const bool named = script.text_column || script.source_lang;  // languages may have columns of two shapes
      if (!named) expect_same_column(files.any(), columns.source, **data, own.source, "--text_column");
      if (!named && columns.target && own.target)
        expect_same_column(files.any(), *columns.target, **data, *own.target, "--summary_column");
      with_texts(**data, own);
    }
  std::vector<std::string> parts = {column_part("source", files.any(), columns.source)};
  if (columns.target) parts.push_back(column_part("target", files.any(), *columns.target));
  return what_is_read(parts, files);
}

Dataset limited(const Dataset& data, std::optional<int64_t> limit) {
  return limit ? data.first(std::min(*limit, data.size())) : data;
}

}  // namespace

void score_loss_only(TaskSetup& setup) {
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
}

void prepare_sequence_to_sequence(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (script.task == "text2text-generation" && !script.span_corruption && !script.text_column &&
      has_questions(files.any(), script))
    return prepare_written_answers(arguments, files, setup);
  const bool of_language = script.span_corruption || script.task == "fill-mask";
  const std::string task = script.task.value_or(script.summary_column ? "summarization" : "translation");
  if (arguments.training.do_predict && !script.predict_with_generate)
    fail(ErrorKind::kUsage, "--do_predict: texts are predicted with --predict_with_generate");
  if (of_language) setup.reads = read_text_column(files, script);
  else setup.reads = read_text_pair(files, script);
  setup.model = load_model(arguments, script.model_name_or_path,
                           load_options(arguments, of_language ? "text2text-generation" : task));
  const TextEncoder encoder(arguments, *setup.model, std::nullopt);
  encoder.save_into(setup);
  score_loss_only(setup);
  if (of_language) return prepare_span_corruption(arguments, files, encoder, setup);
  const int64_t longest = script.max_target_length;
  const bool summaries = task == "summarization", blanks = !summaries;
  if (script.predict_with_generate) {
    evaluate_with_generate(script, encoder, summaries, setup);
    setup.metric_names = summaries ? std::vector<std::string>{"rouge1", "rouge2", "rougeL", "rougeLsum"}
                                   : std::vector<std::string>{"bleu"};
    setup.metric_names->insert(setup.metric_names->end(), {"exact_match", "gen_len"});
  }
  if (files.train)
    setup.train = pairs(limited(*files.train, script.max_train_samples), encoder, arguments, longest, blanks);
  if (files.validation)
    setup.validation = pairs(limited(*files.validation, script.max_eval_samples), encoder, arguments,
                             script.val_max_target_length.value_or(longest), blanks);
  if (files.test)
    setup.test = pairs(limited(*files.test, script.max_predict_samples), encoder, arguments,
                       script.val_max_target_length.value_or(longest), true, true);
}

}  // namespace transom
