// SPDX-License-Identifier: Apache-2.0
// Speech to text with CTC models. Long sounds go through in chunks that overlap.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/config/config.h"
#include "inputs/text/slow_tokenizers/ctc_vocabulary.h"
#include "models/records.h"
#include "work/pipelines/audio/audio_chunks.h"
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/audio/whisper/whisper_recognition.h"

namespace transom {
namespace {

TaskParameters ctc_recognition_parameters() {
  return {
      {"chunk_length_s", TaskParameter::Type::kNumber, "split sounds into chunks of so many seconds"},
      {"stride_length_s", TaskParameter::Type::kNumbers,
       "seconds that two chunks share: one number, or one for each side", "chunk_length_s / 6"},
      {"return_timestamps",
       TaskParameter::Type::kFlagOrWord,
       "return when each character or word is said",
       "",
       {"char", "word"}},
  };
}

class SpeechRecognition : public Pipeline {
 public:
  SpeechRecognition(AudioModel model, CtcVocabulary vocabulary)
      : model_(std::move(model)), vocabulary_(std::move(vocabulary)) {
    for (const int64_t stride : model_.model->config().get_ints("conv_stride", {5, 2, 2, 2, 2, 2, 2}))
      samples_a_frame_ *= stride;
  }
  TaskParameters parameters() const override { return ctc_recognition_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // With return_timestamps ("char" or "word") the chunks beside the text.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    return answers_to_sounds(inputs, model_.extractor->sampling_rate(), batch_size_of(options),
                             [&](const std::vector<Sound>& sounds) {
                               std::vector<TaskResult> results;
                               for (const std::vector<int64_t>& ids : frames(sounds, options))
                                 results.emplace_back(transcription(ids, options));
                               return results;
                             });
  }

 private:
  Transcription transcription(const std::vector<int64_t>& frames, const TaskOptions& options) const {
    const std::vector<SpokenPiece> characters = vocabulary_.characters(frames);
    Transcription result{.text = vocabulary_.text(characters), .chunks = {}};
    if (!is_given(options, "return_timestamps")) return result;
    const TaskOptions::Value& given = *options.find("return_timestamps");
    const std::string* unit = std::get_if<std::string>(&given);
    if (const bool* flag = std::get_if<bool>(&given); flag && !*flag) return result;
    if (!unit || (*unit != "char" && *unit != "word"))
      fail("parameter return_timestamps: expected \"char\" or \"word\", found {}", quoted(shown_value(given)));
    const double frame = static_cast<double>(samples_a_frame_) / static_cast<double>(model_.extractor->sampling_rate());
    result.has_times = true;
    for (const SpokenPiece& piece : *unit == "char" ? characters : vocabulary_.words(characters))
      result.chunks.push_back({.text = piece.text,
                               .begin = static_cast<double>(piece.begin) * frame,
                               .end = static_cast<double>(piece.end) * frame,
                               .language = {}});
    return result;
  }

  // The class of the highest score, of each frame.
  static std::vector<int64_t> best(const AudioModel::Row& logits) {
    const auto classes = static_cast<ptrdiff_t>(logits.shape[2]);
    std::vector<int64_t> ids;
    for (auto row = logits.values.begin(); row != logits.values.end(); row += classes)
      ids.push_back(std::max_element(row, row + classes) - row);
    return ids;
  }

  // The best class of each frame, of each sound. Chunks of all sounds share the batches.
  std::vector<std::vector<int64_t>> frames(const std::vector<Sound>& sounds, const TaskOptions& given) const {
    const auto options = chunk_options(given);
    const int64_t batch_size = batch_size_of(given);
    std::vector<std::vector<int64_t>> result;
    if (!options) {
      for (const AudioModel::Row& row : model_.rows(sounds, "logits", batch_size)) result.push_back(best(row));
      return result;
    }
    std::vector<SoundChunk> chunks;
    std::vector<Sound> parts;
    std::vector<size_t> owners;
    for (size_t i = 0; i < sounds.size(); ++i)
      for (SoundChunk& chunk : cut(sounds[i], *options, samples_a_frame_)) {
        parts.push_back(std::move(chunk.sound));
        chunks.push_back(std::move(chunk));
        owners.push_back(i);
      }
    const std::vector<AudioModel::Row> rows = model_.rows(parts, "logits", batch_size);
    result.resize(sounds.size());
    for (size_t i = 0; i < chunks.size(); ++i)
      append(result[owners[i]], best(rows[i]), static_cast<int64_t>(parts[i].samples.size()), chunks[i].left,
             chunks[i].right);
    return result;
  }

  // The frames of a chunk without those that come from `left` samples at its beginning and `right` at its end.
  void append(std::vector<int64_t>& ids, const std::vector<int64_t>& chunk, int64_t samples, int64_t left,
              int64_t right) const {
    const double all = static_cast<double>(samples);
    const double count = std::nearbyint(all / static_cast<double>(samples_a_frame_));
    const auto first = static_cast<int64_t>(std::nearbyint(static_cast<double>(left) / all * count));
    const auto end = static_cast<int64_t>(count - std::nearbyint(static_cast<double>(right) / all * count));
    const auto there = static_cast<int64_t>(chunk.size());
    if (first < std::min(end, there))
      ids.insert(ids.end(), chunk.begin() + first, chunk.begin() + std::min(end, there));
  }

  AudioModel model_;
  CtcVocabulary vocabulary_;
  int64_t samples_a_frame_ = 1;
};

TaskParameters automatic_speech_recognition_parameters() {
  TaskParameters all = whisper_recognition_parameters();
  for (TaskParameter& parameter : all)
    if (parameter.name == "return_timestamps")
      parameter.choices = {"char", "word"},
      parameter.help = "return when each segment (Whisper), character or word (CTC) is said";
  return all;
}

std::unique_ptr<Pipeline> load_speech_recognition(const std::string& directory, const LoadOptions& options,
                                                  const std::string& /*task*/) {
  const Family* family = find_family(Config::read(std::filesystem::path(directory) / "config.json"));
  if (family && recognises_by_writing(*family)) return make_whisper_recognition(directory, options);
  AudioModel model = AudioModel::load(directory, options);
  if (*head_of(*model.model).task != HeadTask::kCtc)
    fail(
        "{}: automatic-speech-recognition is offered for models with a head for CTC, and those that write what was "
        "said "
        "(Whisper), not for {}",
        directory, model.model->architecture());
  return std::make_unique<SpeechRecognition>(std::move(model), CtcVocabulary::read(directory));
}

constexpr TaskRecord kSpeechRecognition{.name = "automatic-speech-recognition",
                                        .alias = "asr",
                                        .example = "speech.flac --chunk_length_s 20",
                                        .input = InputKind::kAudio,
                                        .result = ResultKind::kTranscription,
                                        .parameters = automatic_speech_recognition_parameters,
                                        .load = load_speech_recognition};
const RegisterTask kRegisterSpeechRecognition(kSpeechRecognition);

}  // namespace
}  // namespace transom
