// SPDX-License-Identifier: Apache-2.0
// Speech to text with Whisper. Long sounds are read segment after segment, or, with chunk_length_s, in chunks that
// overlap.
#include <cmath>

#include "base/directories.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "pipelines/audio_chunks.h"
#include "pipelines/audio_model.h"
#include "pipelines/generation_model.h"
#include "pipelines/whisper_generation.h"
#include "pipelines/whisper_text.h"

namespace transom {
namespace {

// As Transformers' pipeline has it.
const Json& defaults() {
  static const Json values{{"max_new_tokens", 256}, {"num_beams", 5}};
  return values;
}

// Takes a field of "generate_kwargs" that is not one of generate()'s.
std::string taken(Json& parameters, const char* name) {
  std::string value = string_parameter(parameters, name, "");
  parameters.erase(name);
  if (const auto kwargs = parameters.find("generate_kwargs"); kwargs != parameters.end() && kwargs->is_object()) {
    value = string_parameter(*kwargs, name, value);
    kwargs->erase(name);
  }
  return value;
}

class WhisperRecognition : public Pipeline {
 public:
  WhisperRecognition(GenerationModel model, std::unique_ptr<FeatureExtractor> extractor, const Json& generation)
      : model_(std::move(model)), extractor_(std::move(extractor)), writer_(*model_.model, generation) {}

  std::vector<std::string> parameter_names() const override {
    return writing_parameter_names(
        {"chunk_length_s", "stride_length_s", "return_timestamps", "return_language", "language", "task"});
  }
  bool takes_audio() const override { return true; }

  // {"text"}, and with return_timestamps or return_language the "chunks": {"language", "timestamp", "text"}.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    return answers_to_sounds(inputs, extractor_->sampling_rate(),
                             [&](const Sound& sound) { return text_of(sound, parameters); });
  }

 private:
  Json text_of(const Sound& sound, Json parameters) const {
    WhisperRequest request{.config = {}, .language = taken(parameters, "language"), .task = taken(parameters, "task")};
    request.config = model_.config_for(parameters, defaults());
    if (request.config.num_return_sequences != 1) fail("num_return_sequences: expected 1, as one text is returned");
    const auto stamps = parameters.find("return_timestamps");
    const bool asked = stamps != parameters.end() && !stamps->is_null();
    if (asked && !stamps->is_boolean())
      fail("parameter return_timestamps: {}: this model gives those of segments; say true", quoted(dump_json(*stamps)));
    const bool with_times = (asked && *stamps == true) || writer_.wants_timestamps();
    const bool with_language = bool_parameter(parameters, "return_language", false);
    request.timestamps = with_times;

    std::vector<WhisperPiece> pieces;
    if (const auto chunks = chunk_options(parameters)) {
      for (const SoundChunk& chunk : cut(sound, *chunks, 1)) {
        const double rate = static_cast<double>(sound.sampling_rate);
        pieces.push_back(
            {write((*extractor_)(std::span(&chunk.sound, 1)), request),
             WhisperPiece::Stride{static_cast<double>(chunk.sound.samples.size()) / rate,
                                  static_cast<double>(chunk.left) / rate, static_cast<double>(chunk.right) / rate}});
      }
    } else {
      const AudioFeatures features = extractor_->whole(sound);
      request.timestamps = with_times || features.shape[2] > writer_.window();
      pieces.push_back({write(features, request), std::nullopt});
    }
    const double seconds =
        static_cast<double>(extractor_->fixed_length()) / static_cast<double>(extractor_->sampling_rate());
    const std::vector<WhisperSegment> segments =
        whisper_segments(model_.tokenizer, pieces,
                         {.timestamps = with_times,
                          .time_precision = seconds / static_cast<double>(writer_.positions()),
                          .positions = 1500});
    return result(segments, with_times, with_language);
  }

  TokenIds write(const AudioFeatures& features, const WhisperRequest& request) const {
    return writer_.write(Tensor::from(features.values, features.shape), request);
  }

  static Json result(const std::vector<WhisperSegment>& segments, bool with_times, bool with_language) {
    std::string text;
    Json chunks = Json::array();
    const auto seconds = [](const std::optional<double>& time) { return time ? Json(*time) : Json(); };
    for (const WhisperSegment& segment : segments) {
      text += segment.text;
      Json chunk = Json::object();
      if (with_language) chunk["language"] = segment.language.empty() ? Json() : Json(segment.language);
      if (with_times) chunk["timestamp"] = {seconds(segment.begin), seconds(segment.end)};
      chunk["text"] = segment.text;
      chunks.push_back(std::move(chunk));
    }
    Json result{{"text", text}};
    if (with_times || with_language) result["chunks"] = std::move(chunks);
    return result;
  }

  GenerationModel model_;
  std::unique_ptr<FeatureExtractor> extractor_;
  WhisperWriter writer_;
};

}  // namespace

std::unique_ptr<Pipeline> make_whisper_recognition(const std::string& directory, const LoadOptions& options) {
  const fs::path folder(directory), own = folder / "generation_config.json";
  return std::make_unique<WhisperRecognition>(GenerationModel::load(directory, options),
                                              FeatureExtractor::read(directory),
                                              read_json(path_exists(own) ? own : folder / "config.json"));
}

}  // namespace transom
