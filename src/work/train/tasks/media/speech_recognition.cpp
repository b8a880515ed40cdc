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
#include "work/train/arguments/argument_tables.h"
#include "work/train/setup/freeze.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/media/transcribed_sounds.h"
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
  rows.files = std::move(transcribed.files);
  const auto kept = std::make_shared<const TranscribedSounds>(transcribed_sounds(
      rows, script, [&](int64_t i) { return vocabulary.ids(transcribed.texts[static_cast<size_t>(i)]); }));
  TrainingData result;
  result.rows = static_cast<int64_t>(kept->labels.size());
  result.lengths = kept->milliseconds;
  result.batch = [kept](const std::vector<int64_t>& wanted) {
    Batch batch;
    kept->add_labels(batch, wanted);
    kept->sounds.fill(batch, wanted);
    return batch;
  };
  return result;
}

Metrics rates_of_predictions(const CtcVocabulary& vocabulary, const std::vector<std::string>& names,
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
  return error_rates(names, texts_of(predictions.labels, false), texts_of(found->values, true));
}

}  // namespace

void prepare_speech_recognition(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const Family* family = find_family(Config::read(base_of_adapters(directory) / "config.json"));
  expect_error_rates(script.eval_metrics);
  if (family && recognises_by_writing(*family)) return prepare_written_speech(arguments, files, setup);
  refuse_given(arguments,
               {"freeze_encoder", "apply_spec_augment", "do_lower_case", "language", "speech_task",
                "predict_with_generate", "num_samples_to_print"},
               fmt::format("is for models that write what was said (Whisper); {} has a head for CTC",
                           script.model_name_or_path));
  const std::filesystem::path preprocessor = script.feature_extractor_name.value_or(directory.string());
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
    return rates_of_predictions(vocabulary, names, predictions);
  };
  setup.save_tokenizer = [vocabulary, preprocessor](const std::string& output) {
    vocabulary.save(output);
    copy_preprocessor(preprocessor, output);
  };
}

}  // namespace transom
