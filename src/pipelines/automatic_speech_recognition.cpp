// SPDX-License-Identifier: Apache-2.0
// Speech to text with CTC models. Long sounds go through in chunks that overlap.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "io/config.h"
#include "pipelines/audio_chunks.h"
#include "pipelines/audio_model.h"
#include "text/slow_tokenizers/ctc_vocabulary.h"

namespace transom {
namespace {

class SpeechRecognition : public Pipeline {
 public:
  SpeechRecognition(AudioModel model, CtcVocabulary vocabulary)
      : model_(std::move(model)), vocabulary_(std::move(vocabulary)) {
    for (const int64_t stride : model_.model->config().get_ints("conv_stride", {5, 2, 2, 2, 2, 2, 2}))
      samples_a_frame_ *= stride;
  }
  std::vector<std::string> parameter_names() const override {
    return {"chunk_length_s", "stride_length_s", "return_timestamps"};
  }
  bool takes_audio() const override { return true; }

  // {"text"}, and with return_timestamps ("char" or "word") the "chunks": {"text", "timestamp": [begin, end]}.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    return answers_to_sounds(inputs, model_.extractor->sampling_rate(),
                             [&](const Sound& sound) { return text_of(sound, parameters); });
  }

 private:
  Json text_of(const Sound& sound, const Json& parameters) const {
    const std::vector<SpokenPiece> characters = vocabulary_.characters(frames(sound, parameters));
    Json result{{"text", vocabulary_.text(characters)}};
    const auto found = parameters.find("return_timestamps");
    if (found == parameters.end() || found->is_null() || *found == false) return result;
    if (*found != "char" && *found != "word")
      fail("parameter return_timestamps: expected \"char\" or \"word\", found {}", quoted(dump_json(*found)));
    const double frame = static_cast<double>(samples_a_frame_) / static_cast<double>(model_.extractor->sampling_rate());
    Json chunks = Json::array();
    for (const SpokenPiece& piece : *found == "char" ? characters : vocabulary_.words(characters))
      chunks.push_back(
          {{"text", piece.text},
           {"timestamp", {static_cast<double>(piece.begin) * frame, static_cast<double>(piece.end) * frame}}});
    result["chunks"] = chunks;
    return result;
  }

  std::vector<int64_t> best(const Sound& sound) const {
    const Tensor logits = model_(sound).at("logits");
    const auto scores = logits.to_vector<float>();
    const auto classes = static_cast<ptrdiff_t>(logits.dim(2));
    std::vector<int64_t> ids;
    for (auto row = scores.begin(); row != scores.end(); row += classes)
      ids.push_back(std::max_element(row, row + classes) - row);
    return ids;
  }

  // The best class of each frame.
  std::vector<int64_t> frames(const Sound& sound, const Json& parameters) const {
    const auto options = chunk_options(parameters);
    if (!options) return best(sound);
    std::vector<int64_t> ids;
    for (const SoundChunk& chunk : cut(sound, *options, samples_a_frame_))
      append(ids, best(chunk.sound), static_cast<int64_t>(chunk.sound.samples.size()), chunk.left, chunk.right);
    return ids;
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

}  // namespace

std::unique_ptr<Pipeline> make_automatic_speech_recognition(const std::string& directory, const LoadOptions& options) {
  if (Config::read(std::filesystem::path(directory) / "config.json").get_string("model_type", "") == "whisper")
    return make_whisper_recognition(directory, options);
  AudioModel model = AudioModel::load(directory, options);
  if (!model.model->architecture().ends_with("ForCTC"))
    fail(
        "{}: automatic-speech-recognition is offered for CTC models (Wav2Vec2ForCTC, HubertForCTC) and Whisper, not "
        "for {}",
        directory, model.model->architecture());
  return std::make_unique<SpeechRecognition>(std::move(model), CtcVocabulary::read(directory));
}

}  // namespace transom
