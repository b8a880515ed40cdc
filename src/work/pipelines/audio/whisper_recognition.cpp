// SPDX-License-Identifier: Apache-2.0
// Speech to text with Whisper. Long sounds are read segment after segment, or, with chunk_length_s, in chunks that
// overlap.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "work/pipelines/audio/audio_chunks.h"
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/audio/whisper_generation.h"
#include "work/pipelines/audio/whisper_recognition.h"
#include "work/pipelines/audio/whisper_text.h"
#include "work/pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipeline has it.
const Json& defaults() {
  static const Json values{{"max_new_tokens", 256}, {"num_beams", 5}};
  return values;
}

// Takes a field of "generate_kwargs" that is not one of generate()'s.
std::string taken(TaskOptions& options, const char* name) {
  std::string value = text_option(options, name, "");
  options.erase(name);
  Json kwargs = json_option(options, "generate_kwargs");
  if (!kwargs.is_object() || !kwargs.contains(name)) return value;
  const Json& given = kwargs[name];
  if (given.is_string()) value = given.get<std::string>();
  else if (!given.is_null()) fail("parameter {}: expected a string, found {}", name, quoted(dump_json(given)));
  kwargs.erase(name);
  options.set("generate_kwargs", TaskOptions::JsonText{dump_json(kwargs)});
  return value;
}

class WhisperRecognition : public Pipeline {
 public:
  WhisperRecognition(GenerationModel model, std::unique_ptr<FeatureExtractor> extractor, const Json& generation)
      : model_(std::move(model)), extractor_(std::move(extractor)), writer_(*model_.model, generation) {}

  TaskParameters parameters() const override { return whisper_recognition_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // With return_timestamps or return_language the chunks beside the text.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    return answers_to_sounds(inputs, extractor_->sampling_rate(), batch_size_of(options),
                             [&](const std::vector<Sound>& sounds) { return texts_of(sounds, options); });
  }

 private:
  std::vector<TaskResult> texts_of(const std::vector<Sound>& sounds, TaskOptions options) const {
    WhisperRequest request{.config = {}, .language = taken(options, "language"), .task = taken(options, "task")};
    request.prompt = prompt_of(taken(options, "prompt"));
    Json usual = defaults();
    if (!request.prompt.empty()) {
      // Beside the prompt there are the tokens that tell language, task and times.
      const int64_t room = writer_.most_tokens() - static_cast<int64_t>(request.prompt.size()) - 4;
      usual["max_new_tokens"] = std::clamp<int64_t>(room, 1, usual["max_new_tokens"].get<int64_t>());
    }
    request.config = model_.config_for(options, usual);
    if (request.config.num_return_sequences != 1) fail("num_return_sequences: expected 1, as one text is returned");
    if (is_given(options, "return_timestamps") && !std::get_if<bool>(options.find("return_timestamps")))
      fail("parameter return_timestamps: {}: this model gives those of segments; say true",
           quoted(shown_value(*options.find("return_timestamps"))));
    const bool with_times = flag_or_default(options, "return_timestamps", false) || writer_.wants_timestamps();
    const bool with_language = flag_option(options, "return_language", false);
    request.timestamps = with_times;
    request.keeps_language = with_language;

    std::vector<std::vector<WhisperPiece>> pieces(sounds.size());
    const int64_t batch_size = batch_size_of(options);
    if (const auto chunks = chunk_options(options)) {
      std::vector<Tensor> features;
      std::vector<WhisperPiece*> places;
      for (size_t i = 0; i < sounds.size(); ++i) {
        const double rate = static_cast<double>(sounds[i].sampling_rate);
        const std::vector<SoundChunk> parts = cut(sounds[i], *chunks, 1);
        pieces[i].reserve(parts.size());
        for (const SoundChunk& chunk : parts) {
          features.push_back(tensor_of((*extractor_)(std::span(&chunk.sound, 1))));
          places.push_back(&pieces[i].emplace_back(WhisperPiece{
              {},
              WhisperPiece::Stride{static_cast<double>(chunk.sound.samples.size()) / rate,
                                   static_cast<double>(chunk.left) / rate, static_cast<double>(chunk.right) / rate}}));
        }
      }
      write(features, request, batch_size, places);
    } else {
      // Sounds that are longer than the window need timestamps; the shorter ones are written without.
      std::vector<Tensor> features[2];
      std::vector<WhisperPiece*> places[2];
      for (size_t i = 0; i < sounds.size(); ++i) {
        const AudioFeatures whole = extractor_->whole(sounds[i]);
        const bool longer = whole.shape[2] > writer_.window();
        features[longer].push_back(tensor_of(whole));
        places[longer].push_back(&pieces[i].emplace_back());
      }
      for (const bool longer : {false, true}) {
        request.timestamps = with_times || longer;
        write(features[longer], request, batch_size, places[longer]);
      }
    }
    const double seconds =
        static_cast<double>(extractor_->fixed_length()) / static_cast<double>(extractor_->sampling_rate());
    std::vector<TaskResult> results;
    for (const std::vector<WhisperPiece>& one : pieces)
      results.emplace_back(
          result(whisper_segments(model_.tokenizer, one,
                                  {.timestamps = with_times,
                                   .time_precision = seconds / static_cast<double>(writer_.positions()),
                                   .positions = 1500}),
                 with_times, with_language));
    return results;
  }

  // As WhisperProcessor.get_prompt_ids() makes it, cut to its end where it is longer than half of the decoder's places.
  TokenIds prompt_of(const std::string& prompt) const {
    const size_t first = prompt.find_first_not_of(" \t\r\n");
    if (first == prompt.npos) return {};
    const std::string text = prompt.substr(first, prompt.find_last_not_of(" \t\r\n") + 1 - first);
    const auto mark = model_.tokenizer.token_to_id("<|startofprev|>");
    if (!mark) fail("parameter prompt: the tokenizer of this model has no <|startofprev|>");
    TokenIds ids = model_.tokenizer.encode(" " + text, std::nullopt, {.add_special_tokens = false}).ids;
    const std::vector<int64_t> special = model_.tokenizer.all_special_ids();
    for (const int64_t id : ids)
      if (std::find(special.begin(), special.end(), id) != special.end())
        fail("parameter prompt: expected text, found the special token {}", quoted(model_.tokenizer.decode({id})));
    const auto most = static_cast<size_t>(std::max<int64_t>(writer_.most_tokens() / 2 - 1, 1));
    if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(most));
    ids.insert(ids.begin(), *mark);
    return ids;
  }

  static Tensor tensor_of(const AudioFeatures& features) { return Tensor::from(features.values, features.shape); }

  // The tokens of each sound, `batch_size` of them at a time.
  void write(const std::vector<Tensor>& features, const WhisperRequest& request, int64_t batch_size,
             const std::vector<WhisperPiece*>& places) const {
    for (size_t first = 0; first < features.size(); first += static_cast<size_t>(batch_size)) {
      const size_t end = std::min(features.size(), first + static_cast<size_t>(batch_size));
      std::vector<TokenIds> texts = writer_.write(
          {features.begin() + static_cast<ptrdiff_t>(first), features.begin() + static_cast<ptrdiff_t>(end)}, request);
      for (size_t i = first; i < end; ++i) places[i]->tokens = std::move(texts[i - first]);
    }
  }

  static Transcription result(const std::vector<WhisperSegment>& segments, bool with_times, bool with_language) {
    Transcription result{.text = {}, .chunks = {}, .has_times = with_times, .has_languages = with_language};
    for (const WhisperSegment& segment : segments) {
      result.text += segment.text;
      if (with_times || with_language)
        result.chunks.push_back({segment.text, segment.begin, segment.end, segment.language});
    }
    return result;
  }

  GenerationModel model_;
  std::unique_ptr<FeatureExtractor> extractor_;
  WhisperWriter writer_;
};

}  // namespace

TaskParameters whisper_recognition_parameters() {
  return generation_parameters({
      {"chunk_length_s", TaskParameter::Type::kNumber, "split sounds into chunks of so many seconds"},
      {"stride_length_s", TaskParameter::Type::kNumbers,
       "seconds that two chunks share: one number, or one for each side", "chunk_length_s / 6"},
      {"return_timestamps", TaskParameter::Type::kFlagOrWord, "return when each segment is said", "", {"word"}},
      {"return_language", TaskParameter::Type::kFlag, "return the language of each segment", "false"},
      {"language", TaskParameter::Type::kText, "the language that is spoken (default: detected)"},
      {"prompt", TaskParameter::Type::kText, "what was said before: names, and how words are spelled"},
      {"task",
       TaskParameter::Type::kText,
       "write what is said, or translate it to English",
       "transcribe",
       {"transcribe", "translate"}},
  });
}

std::unique_ptr<Pipeline> make_whisper_recognition(const std::string& directory, const LoadOptions& options) {
  const fs::path folder(directory), own = folder / "generation_config.json";
  return std::make_unique<WhisperRecognition>(GenerationModel::load(directory, options),
                                              FeatureExtractor::read(directory),
                                              read_json(path_exists(own) ? own : folder / "config.json"));
}

}  // namespace transom
