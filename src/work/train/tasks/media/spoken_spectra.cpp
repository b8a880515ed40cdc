// SPDX-License-Identifier: Apache-2.0
// Text to speech, as one fine-tunes SpeechT5: texts, sounds in which they are said, and a vector of each voice.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "files/config/config.h"
#include "inputs/audio/speecht5_features.h"
#include "inputs/audio/voice_vector.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/data/text/padding.h"
#include "models/records.h"
#include "transom/tokenizer.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr const char* kVoiceColumn = "speaker_embeddings";
constexpr float kNoFrame = -100;

struct SpokenRow {
  std::filesystem::path file;
  std::string where;
  std::vector<int64_t> ids;
  std::vector<float> voice;
};

// What the rows of a model have in common.
struct SpokenForm {
  SpeechT5Features spectra;
  Tokenizer tokenizer;
  int64_t padding = 1, reduction = 2, voice = 512, most_tokens = 450, most_steps = 4000;
};

// The numbers of the row, or of the file that it names.
std::vector<float> voice_of(const Dataset& data, int64_t index, const Row& row, size_t column) {
  const Value& value = row[column];
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return {numbers->begin(), numbers->end()};
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) return {numbers->begin(), numbers->end()};
  return voice_vector(file_of(data, index, column));
}

class SpokenRows {
 public:
  SpokenRows(const Dataset& data, std::shared_ptr<const SpokenForm> form, const ScriptArguments& script)
      : form_(std::move(form)) {
    const size_t audio = need_column(data, script.audio_column_name, "audio_column_name"),
                 text = need_column(data, script.text_column_name.value_or("text"), "text_column_name");
    const auto voice = data.find(kVoiceColumn);
    if (!voice)
      fail("{}: expected the column {}, of the vector of each voice or of its file", data.name(), kVoiceColumn);
    const Dataset texts = data.with_text(text);
    rows_ = map_rows(data.size(), [&](int64_t i) {
      const Row row = texts.row(i);
      SpokenRow read{file_of(texts, i, audio), texts.where(i),
                     form_->tokenizer.encode(text_of(texts, i, row, text)).ids, voice_of(texts, i, row, *voice)};
      if (static_cast<int64_t>(read.ids.size()) > form_->most_tokens)
        fail("{}: the text has {} tokens, but the model reads at most {}", read.where, read.ids.size(),
             form_->most_tokens);
      if (static_cast<int64_t>(read.voice.size()) != form_->voice)
        fail("{}: {}: expected {} numbers, found {}", read.where, kVoiceColumn, form_->voice, read.voice.size());
      return read;
    });
  }
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

  Batch batch(const std::vector<int64_t>& wanted) const {
    std::vector<Features> texts;
    std::vector<std::vector<float>> spectra(wanted.size());
    FloatRows voices{{static_cast<int64_t>(wanted.size()), form_->voice}, {}};
    for (const int64_t index : wanted) {
      const SpokenRow& row = rows_[static_cast<size_t>(index)];
      texts.push_back({.sequences = {{"input_ids", row.ids}}});
      voices.values.insert(voices.values.end(), row.voice.begin(), row.voice.end());
    }
    parallel_for(wanted.size(), [&](size_t i) { spectra[i] = spectrum(rows_[static_cast<size_t>(wanted[i])]); });
    Batch batch = collate(texts, {.pad_token_id = form_->padding});
    batch.arrays[kVoiceColumn] = std::move(voices);
    batch.arrays["labels"] = padded(spectra);
    return batch;
  }

 private:
  std::vector<float> spectrum(const SpokenRow& row) const {
    const std::vector<float> levels = form_->spectra(resampled(read_sound(row.file), form_->spectra.sampling_rate()));
    const int64_t frames = static_cast<int64_t>(levels.size()) / form_->spectra.bands();
    if (frames < form_->reduction || frames / form_->reduction > form_->most_steps)
      fail("{}: the sound has {} frames; expected {} to {}", row.where, frames, form_->reduction,
           form_->most_steps * form_->reduction);
    return levels;
  }
  // To the longest, of whole steps of the decoder.
  FloatRows padded(const std::vector<std::vector<float>>& spectra) const {
    const int64_t bands = form_->spectra.bands();
    int64_t longest = 0;
    for (const auto& levels : spectra) {
      const int64_t frames = static_cast<int64_t>(levels.size()) / bands;
      longest = std::max(longest, frames - frames % form_->reduction);
    }
    FloatRows labels{{static_cast<int64_t>(spectra.size()), longest, bands}, {}};
    for (std::vector<float> levels : spectra) {
      levels.resize(static_cast<size_t>(longest * bands), kNoFrame);
      labels.values.insert(labels.values.end(), levels.begin(), levels.end());
    }
    return labels;
  }

  std::shared_ptr<const SpokenForm> form_;
  std::vector<SpokenRow> rows_;
};

TrainingData spoken_training_data(const Dataset& data, const std::shared_ptr<const SpokenForm>& form,
                                  const ScriptArguments& script) {
  const auto rows = std::make_shared<const SpokenRows>(data, form, script);
  TrainingData result;
  result.rows = rows->size();
  result.batch = [rows](const std::vector<int64_t>& wanted) { return rows->batch(wanted); };
  return result;
}

}  // namespace

void prepare_text_to_speech(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const std::filesystem::path preprocessor = script.feature_extractor_name.value_or(directory.string());
  setup.reads = what_is_read(
      {fmt::format("text: column {}", script.text_column_name.value_or("text")),
       fmt::format("sound: column {}", script.audio_column_name), fmt::format("voice: column {}", kVoiceColumn)},
      files);
  setup.model = load_model(arguments, directory.string(), load_options(arguments, "text-to-audio"));
  if (*head_of(*setup.model).labels != HeadLabels::kSpectrum)
    fail(ErrorKind::kUnsupported, "{}: expected a model that learns from spectra (SpeechT5), found {}",
         directory.string(), setup.model->architecture());
  const Config& config = setup.model->config();
  const auto form = std::make_shared<const SpokenForm>(
      SpokenForm{.spectra = SpeechT5Features::read(preprocessor),
                 .tokenizer = Tokenizer::from_pretrained(script.tokenizer_name.value_or(directory.string())),
                 .padding = config.get_int("pad_token_id", 1),
                 .reduction = config.get_int("reduction_factor", 2),
                 .voice = config.get_int("speaker_embedding_dim", 512),
                 .most_tokens = config.get_int("max_text_positions", 450),
                 .most_steps = config.get_int("max_speech_positions", 4000)});
  if (form->spectra.bands() != config.get_int("num_mel_bins", 80))
    fail("{}: num_mel_bins: expected {}, as the model has, found {}", preprocessor.string(),
         config.get_int("num_mel_bins", 80), form->spectra.bands());
  if (files.train) setup.train = spoken_training_data(*files.train, form, script);
  if (files.validation) setup.validation = spoken_training_data(*files.validation, form, script);
  score_loss_only(setup);
  setup.save_tokenizer = [form, preprocessor](const std::string& output) {
    form->tokenizer.save_pretrained(output);
    copy_preprocessor(preprocessor, output);
  };
}

}  // namespace transom
