// SPDX-License-Identifier: Apache-2.0
// run_speech_recognition_ctc: sounds and their transcripts, with a vocabulary of characters that the checkpoint has or
// that is made of the transcripts. Models that write what was said go to written_speech.cpp.
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/hub/adapters.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/text/slow_tokenizers/ctc_vocabulary.h"
#include "inputs/text/unicode/unicode.h"
#include "models/loading/load_changed.h"
#include "models/records.h"
#include "work/train/metrics/error_rates.h"
#include "work/train/setup/freeze.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/media/audio_rows.h"
#include "work/train/tasks/media/written_speech.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct Transcribed {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> texts;
};

// In small letters, without the characters to ignore, and with a space behind, as the script has it.
std::string normal_transcript(const std::string& text, const std::vector<std::string>& ignored) {
  std::u32string result;
  const std::string whole = text::well_formed(text);
  for (size_t position = 0; position < whole.size();) {
    const char32_t c = text::next_character(whole, position);
    const bool kept = std::none_of(ignored.begin(), ignored.end(), [&](const std::string& characters) {
      return text::characters(text::well_formed(characters)).find(c) != std::u32string::npos;
    });
    if (kept) result += text::lower_case(c);
  }
  std::string lower;
  for (const char32_t c : result) text::append_character(lower, c);
  return lower + " ";
}

std::optional<Transcribed> transcripts(const std::optional<Dataset>& data, const ScriptArguments& script) {
  if (!data) return std::nullopt;
  const size_t audio = need_column(*data, script.audio_column_name, "audio_column_name"),
               text = need_column(*data, script.text_column_name.value_or("text"), "text_column_name");
  const Dataset texts = data->with_text(text);
  Transcribed result;
  for (int64_t row = 0; row < data->size(); ++row) {
    result.files.push_back(file_of(texts, row, audio));
    result.texts.push_back(normal_transcript(text_of(texts, row, texts.row(row), text), script.chars_to_ignore));
  }
  return result;
}

// What the script puts into a checkpoint's configuration.
Json new_fields(const ScriptArguments& script, const CtcVocabulary& vocabulary) {
  return {{"attention_dropout", script.attention_dropout},
          {"activation_dropout", script.activation_dropout},
          {"feat_proj_dropout", script.feat_proj_dropout},
          {"hidden_dropout", script.hidden_dropout},
          {"final_dropout", script.final_dropout},
          {"mask_time_prob", script.mask_time_prob},
          {"mask_time_length", script.mask_time_length},
          {"mask_feature_prob", script.mask_feature_prob},
          {"mask_feature_length", script.mask_feature_length},
          {"layerdrop", script.layerdrop},
          {"ctc_loss_reduction", script.ctc_loss_reduction},
          {"ctc_zero_infinity", script.ctc_zero_infinity},
          {"add_adapter", script.add_adapter},
          {"pad_token_id", vocabulary.pad_id()},
          {"vocab_size", vocabulary.size()}};
}

TrainingData training_data(Transcribed&& transcribed, SoundRows rows, const CtcVocabulary& vocabulary,
                           const ScriptArguments& script) {
  // Sounds of a length that is not wanted are left out, as they are read once before all.
  struct Row {
    double seconds;
    std::vector<int64_t> labels;
  };
  rows.files = transcribed.files;
  const auto read = map_rows(static_cast<int64_t>(rows.files.size()), [&](int64_t i) {
    const auto place = static_cast<size_t>(i);
    return Row{read_sound(rows.files[place]).seconds(), vocabulary.ids(transcribed.texts[place])};
  });
  auto labels = std::make_shared<std::vector<std::vector<int64_t>>>();
  SoundRows kept = rows;
  kept.files.clear();
  TrainingData result;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i].seconds <= script.min_duration_in_seconds || read[i].seconds >= script.max_duration_in_seconds)
      continue;
    kept.files.push_back(rows.files[i]);
    labels->push_back(read[i].labels);
    result.lengths.push_back(static_cast<int64_t>(read[i].seconds * 1000));
  }
  if (labels->empty())
    fail(
        "none of {} sounds is between {} and {} seconds long: min_duration_in_seconds and max_duration_in_seconds say "
        "which are taken",
        read.size(), script.min_duration_in_seconds, script.max_duration_in_seconds);
  result.rows = static_cast<int64_t>(labels->size());
  result.batch = [kept, labels](const std::vector<int64_t>& wanted) {
    Batch batch;
    std::vector<const std::vector<int64_t>*> sequences;
    size_t longest = 1;
    for (const int64_t row : wanted) {
      sequences.push_back(&(*labels)[static_cast<size_t>(row)]);
      longest = std::max(longest, sequences.back()->size());
    }
    batch.sequences["labels"] = pad(sequences, static_cast<int64_t>(longest), kIgnoredLabel, false);
    kept.fill(batch, wanted);
    return batch;
  };
  return result;
}

Metrics error_rates(const CtcVocabulary& vocabulary, const std::vector<std::string>& names,
                    const Predictions& predictions) {
  const Predictions::Array* found = find_output(predictions, "predictions");
  if (!found || predictions.labels.empty() || predictions.rows == 0) return {};
  const auto texts_of = [&](const auto& values, bool frames) {
    const size_t width = values.size() / static_cast<size_t>(predictions.rows);
    std::vector<std::string> texts;
    for (size_t row = 0; row < static_cast<size_t>(predictions.rows); ++row) {
      std::vector<int64_t> ids;
      for (size_t i = row * width; i < (row + 1) * width; ++i) {
        const auto id = static_cast<int64_t>(values[i]);
        ids.push_back(id < 0 ? vocabulary.pad_id() : id);
      }
      texts.push_back(vocabulary.text(vocabulary.characters(ids, frames)));
    }
    return texts;
  };
  const auto references = texts_of(predictions.labels, false), said = texts_of(found->values, true);
  Metrics metrics;
  for (const std::string& name : names)
    metrics.emplace_back(name,
                         name == "wer" ? word_error_rate(references, said) : character_error_rate(references, said));
  return metrics;
}

void refuse_arguments_of_writers(const TrainArguments& arguments) {
  if (!arguments.given) return;
  for (const char* name : {"freeze_encoder", "apply_spec_augment", "do_lower_case", "language", "speech_task",
                           "predict_with_generate", "num_samples_to_print"})
    if (std::find(arguments.given->begin(), arguments.given->end(), name) != arguments.given->end())
      fail(ErrorKind::kUsage, "--{}: is for models that write what was said (Whisper); {} has a head for CTC", name,
           arguments.script.model_name_or_path);
}

}  // namespace

void prepare_speech_recognition(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const Family* family = find_family(Config::read(base_of_adapters(directory) / "config.json"));
  if (family && recognises_by_writing(*family)) return prepare_written_speech(arguments, files, setup);
  refuse_arguments_of_writers(arguments);
  const std::filesystem::path preprocessor = script.feature_extractor_name.value_or(directory.string());
  for (const std::string& name : script.eval_metrics)
    if (name != "wer" && name != "cer")
      fail(ErrorKind::kUsage, "--eval_metrics: expected wer or cer, found {}", quoted(name));
  std::optional<Transcribed> train = transcripts(files.train, script),
                             validation = transcripts(files.validation, script);

  setup.reads = what_is_read({fmt::format("sound: column {}", script.audio_column_name),
                              fmt::format("text: column {}", script.text_column_name.value_or("text"))},
                             files);
  const std::filesystem::path tokenizer = script.tokenizer_name.value_or(directory.string());
  const bool known = script.tokenizer_name || path_exists(tokenizer / "vocab.json");
  std::vector<std::string> texts;
  for (const auto* part : {&train, &validation})
    if (*part) texts.insert(texts.end(), (*part)->texts.begin(), (*part)->texts.end());
  const CtcVocabulary vocabulary =
      known ? CtcVocabulary::read(tokenizer)
            : CtcVocabulary::of_texts(texts, {script.unk_token, script.pad_token, script.word_delimiter_token});

  const LoadOptions options = load_options(arguments, "automatic-speech-recognition");
  Json changes = train ? new_fields(script, vocabulary) : Json::object();
  // The head of a checkpoint that was made with this vocabulary stays, whatever its tokenizer adds beyond it.
  if (known && Config::read(directory / "config.json").get_int("vocab_size", 0) > vocabulary.size())
    changes.erase("vocab_size");
  LoadReport report;
  setup.model = load_changed(directory.string(), changes, options, &report);
  expect_weights(arguments, *setup.model, report, directory.string(), options.task);
  if (*head_of(*setup.model).task != HeadTask::kCtc)
    fail("{}: speech recognition is trained with a head for CTC, not with {}", directory.string(),
         setup.model->architecture());
  if (script.freeze_feature_encoder) freeze_feature_encoder(*setup.model);

  const SoundRows rows{{}, FeatureExtractor::read(preprocessor), std::nullopt, script.pad_to_multiple_of};
  if (train) setup.train = training_data(std::move(*train), rows, vocabulary, script);
  if (validation) setup.validation = training_data(std::move(*validation), rows, vocabulary, script);
  setup.metric_names = script.eval_metrics;
  setup.preprocess_outputs = predicted_classes;
  setup.compute_metrics = [vocabulary, names = script.eval_metrics](const Predictions& predictions) {
    return error_rates(vocabulary, names, predictions);
  };
  setup.save_tokenizer = [vocabulary, preprocessor](const std::string& output) {
    vocabulary.save(output);
    copy_preprocessor(preprocessor, output);
  };
}

}  // namespace transom
