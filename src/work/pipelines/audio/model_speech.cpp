// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/model_speech.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <mutex>
#include <random>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "inputs/audio/voice_vector.h"
#include "models/loading/weights/missing_weights.h"
#include "models/shared/speech/speaking_model.h"
#include "transom/tokenizer.h"
#include "work/pipelines/audio/phonemes.h"

namespace transom {
namespace {

constexpr double kMostRatio = 1000;        // of noise, and of frames
constexpr size_t kMostBytesAtOnce = 1500;  // of a text: what is longer is spoken in pieces

// Where a piece of a text ends that is not to be longer: behind a sentence, else a word, else a character.
size_t end_of_piece(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  const std::string_view front = text.substr(0, most);
  for (const std::string_view marks : {".!?\n", ";:,", " "})
    if (const size_t mark = front.find_last_of(marks); mark != front.npos && mark > 0) return mark + 1;
  size_t end = front.size();
  while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

// Whether the tokenizer reads phonemes. Its class does so where a file of it does not say.
bool asks_for_phonemes(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!file_exists(path)) return false;
  const Json json = read_json(path);
  const auto said = json.find("phonemize");
  return said == json.end() ? json.contains("add_blank") : said->is_boolean() && said->get<bool>();
}

class ModelSpeech : public Pipeline {
 public:
  ModelSpeech(std::unique_ptr<Model> model, const std::string& directory, LoadOptions options)
      : model_(std::move(model)),
        speaker_(dynamic_cast<const SpeakingModel*>(model_.get())),
        tokenizer_(Tokenizer::from_pretrained(directory)),
        folder_(directory_of_model(directory)),
        options_(std::move(options)),
        phonemes_(asks_for_phonemes(folder_)),
        around_every_text_(tokenizer_.encode("").ids.size()) {
    if (!speaker_) fail("{}: text-to-audio: expected a model that speaks, found {}", directory, model_->architecture());
  }
  Model* model() const override { return model_.get(); }

  TaskParameters parameters() const override {
    if (speaker_->makes_spectra())
      return speech_parameters(
          {"voice", "seed", "speaker_embeddings", "vocoder", "threshold", "minlenratio", "maxlenratio"});
    TaskParameters parameters =
        speech_parameters({"voice", "speed", "language", "phonemes", "seed", "noise_scale", "noise_scale_duration"});
    std::erase_if(parameters, [&](const TaskParameter& parameter) {
      return ((parameter.name == "language" || parameter.name == "phonemes") && !phonemes_) ||
             (parameter.name == "voice" && speaker_->speakers() < 2);
    });
    return parameters;
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    SpeechRequest request{.ids = {},
                          .seed = is_given(options, "seed") ? static_cast<uint64_t>(int_option(options, "seed", 0))
                                                            : static_cast<uint64_t>(std::random_device()()),
                          .speed = speed_option(options),
                          .noise_scale = scale_option(options, "noise_scale"),
                          .noise_scale_duration = scale_option(options, "noise_scale_duration")};
    if (speaker_->makes_spectra()) tell_of_spectra(options, request);
    else if (is_given(options, "voice")) request.speaker = number_of(text_option(options, "voice", ""));
    const std::shared_ptr<const Model> vocoder = speaker_->makes_spectra() ? vocoder_of(options) : nullptr;
    request.vocoder = dynamic_cast<const Vocoder*>(vocoder.get());
    const bool given = flag_option(options, "phonemes", false);
    const std::string language = text_option(options, "language", "en-us");
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const std::string& text = spoken_text(input);
      results.emplace_back(speech_of(phonemes_ && !given ? phonemes_of(text, language) : text, request));
    }
    return results;
  }

 private:
  static std::optional<double> scale_option(const TaskOptions& options, const char* name) {
    const std::optional<double> value = number_option(options, name);
    if (value && !(*value >= 0 && *value <= kMostRatio))
      fail(ErrorKind::kUsage, "{}: expected a number from 0 to {}, found {}", name, kMostRatio, *value);
    return value;
  }
  void tell_of_spectra(const TaskOptions& options, SpeechRequest& request) const {
    request.threshold = scale_option(options, "threshold").value_or(request.threshold);
    request.least_steps = scale_option(options, "minlenratio").value_or(request.least_steps);
    request.most_steps = scale_option(options, "maxlenratio").value_or(request.most_steps);
    const std::string file = text_option(options, "speaker_embeddings", ""), name = text_option(options, "voice", "");
    if (!file.empty() && !name.empty()) fail(ErrorKind::kUsage, "voice: has no effect beside speaker_embeddings");
    request.voice = voice_vector(file.empty() ? voice_file(folder_, name) : fs::path(file));
  }
  // Loaded when it is first asked for.
  std::shared_ptr<const Model> vocoder_of(const TaskOptions& options) const {
    const std::string directory = text_option(options, "vocoder", (folder_ / "vocoder").string());
    if (!is_given(options, "vocoder") && !directory_exists(directory))
      fail("{}: expected the model that makes sounds of spectra in vocoder/ beside the model, or by --vocoder",
           folder_.string());
    const std::lock_guard lock(mutex_);
    if (!vocoder_ || vocoder_directory_ != directory) {
      std::shared_ptr<const Model> loaded = load_trained(directory, {.dtype = options_.dtype});
      if (!dynamic_cast<const Vocoder*>(loaded.get()))
        fail("{}: expected a vocoder, as SpeechT5HifiGan, found {}", directory, loaded->architecture());
      vocoder_ = std::move(loaded), vocoder_directory_ = directory;
    }
    return vocoder_;
  }
  int64_t number_of(const std::string& voice) const {
    int64_t number = -1;
    const auto [end, error] = std::from_chars(voice.data(), voice.data() + voice.size(), number);
    if (error != std::errc() || end != voice.data() + voice.size() || number < 0 || number >= speaker_->speakers())
      fail(ErrorKind::kUsage, "voice: expected the number of a speaker, from 0 to {}, found {}",
           speaker_->speakers() - 1, quoted(voice));
    return number;
  }

  Waveform speech_of(std::string_view text, SpeechRequest request) const {
    Waveform sound{.sampling_rate = request.vocoder ? request.vocoder->sampling_rate() : speaker_->sampling_rate(),
                   .channels = 1,
                   .samples = {}};
    bool said = false;
    while (!text.empty()) {
      size_t most = kMostBytesAtOnce, end = end_of_piece(text, most);
      request.ids = tokenizer_.encode(text.substr(0, end)).ids;
      // Numbers that are spelt out are longer than they were.
      while (is_too_long(request.ids) && end > 1) {
        most = end / 2, end = end_of_piece(text, most);
        request.ids = tokenizer_.encode(text.substr(0, end)).ids;
      }
      text.remove_prefix(end);
      if (!has_text(request.ids)) continue;
      for (const float sample : speaker_->speak(request)) {
        if (!std::isfinite(sample)) fail("{}: the model gives samples that are no numbers", folder_.string());
        sound.samples.push_back(sample);
      }
      said = true;
      ++request.seed;
    }
    if (!said) fail("the text: no character of it is one that the model knows");
    return sound;
  }
  bool is_too_long(const std::vector<int64_t>& ids) const {
    return speaker_->most_tokens() > 0 && static_cast<int64_t>(ids.size()) > speaker_->most_tokens();
  }
  // Whether there is anything but the tokens that stand around every text.
  bool has_text(const std::vector<int64_t>& ids) const { return ids.size() > around_every_text_; }

  std::unique_ptr<Model> model_;
  const SpeakingModel* speaker_;
  Tokenizer tokenizer_;
  fs::path folder_;
  LoadOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Model> vocoder_;  // the one that was used last
  mutable std::string vocoder_directory_;
  bool phonemes_;
  size_t around_every_text_;  // tokens that an empty text has
};

}  // namespace

std::unique_ptr<Pipeline> load_model_speech(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<ModelSpeech>(load_trained(directory, options), directory, options);
}

}  // namespace transom
