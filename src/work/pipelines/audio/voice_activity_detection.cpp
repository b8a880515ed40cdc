// SPDX-License-Identifier: Apache-2.0
// When somebody speaks in a sound, by an ONNX graph that hears one window after another, as Silero's does.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/audio/speech_parts.h"
#include "work/pipelines/onnx/graph_model.h"

namespace transom {
namespace {

constexpr int64_t kStateWidth = 128;

class VoiceActivityDetection : public Pipeline {
 public:
  explicit VoiceActivityDetection(GraphModel model) : model_(std::move(model)) {
    for (const onnx::ValueInfo& input : model_.graph().inputs)
      if (input.name != "input" && input.name != "state" && input.name != "sr")
        fail("{}: input {}: expected input, state and sr, as Silero's graph takes", model_.where(), quoted(input.name));
    has_rate_ = std::any_of(model_.graph().inputs.begin(), model_.graph().inputs.end(),
                            [](const onnx::ValueInfo& input) { return input.name == "sr"; });
    if (model_.graph().inputs.size() != (has_rate_ ? 3u : 2u))
      fail("{}: expected the inputs input, state and sr, as Silero's graph takes", model_.where());
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    SpeechRule rule;
    rule.sampling_rate = int_option(options, "sampling_rate", 16000);
    if (rule.sampling_rate != 16000 && (rule.sampling_rate != 8000 || !has_rate_))
      fail(ErrorKind::kUsage, "sampling_rate: expected {}16000, found {}", has_rate_ ? "8000 or " : "",
           rule.sampling_rate);
    rule.window = rule.sampling_rate == 16000 ? 512 : 256;
    rule.threshold = number_within(options, "threshold", 0.5, 1);
    rule.quiet = number_within(options, "neg_threshold", std::max(rule.threshold - 0.15, 0.01), 1);
    rule.least_speech_ms = number_within(options, "min_speech_duration_ms", 250, 1e9);
    rule.least_silence_ms = number_within(options, "min_silence_duration_ms", 100, 1e9);
    rule.padding_ms = number_within(options, "speech_pad_ms", 30, 1e9);
    rule.most_speech_s = number_within(options, "max_speech_duration_s", 0, 1e9);
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const Sound sound = sound_of(input, rule.sampling_rate);
      Transcription found;
      found.has_times = true;
      for (const SpeechPart& part :
           speech_parts(chances_of(sound, rule), static_cast<int64_t>(sound.samples.size()), rule))
        found.chunks.push_back({"speech", static_cast<double>(part.begin) / static_cast<double>(rule.sampling_rate),
                                static_cast<double>(part.end) / static_cast<double>(rule.sampling_rate), ""});
      results.emplace_back(std::move(found));
    }
    return results;
  }

 private:
  static double number_within(const TaskOptions& options, const char* name, double otherwise, double most) {
    const double value = number_option(options, name).value_or(otherwise);
    if (!(value >= 0 && value <= most))
      fail(ErrorKind::kUsage, "{}: expected a number from 0 to {}, found {}", name, most, value);
    return value;
  }

  // Of each window, which the graph hears behind the end of the one before.
  std::vector<double> chances_of(const Sound& sound, const SpeechRule& rule) const {
    const auto window = static_cast<size_t>(rule.window), before = window / 8;
    std::vector<float> heard(before + window, 0.0f), state(2 * kStateWidth, 0.0f);
    const Tensor rate = Tensor::from(std::vector<int64_t>{rule.sampling_rate}, {});
    std::vector<double> chances;
    for (size_t begin = 0; begin < sound.samples.size(); begin += window) {
      std::copy(heard.end() - static_cast<std::ptrdiff_t>(before), heard.end(), heard.begin());
      for (size_t i = 0; i < window; ++i)
        heard[before + i] = begin + i < sound.samples.size() ? sound.samples[begin + i] : 0.0f;
      std::vector<std::pair<std::string, Tensor>> inputs{
          {"input", Tensor::from(heard, {1, static_cast<int64_t>(heard.size())})},
          {"state", Tensor::from(state, {2, 1, kStateWidth})}};
      if (has_rate_) inputs.emplace_back("sr", rate);
      std::vector<FeatureArray> outputs = model_.run(inputs);
      if (outputs.size() != 2 || outputs[0].values.size() != 1 || outputs[1].values.size() != state.size())
        fail("{}: expected a chance of speech and a state [2, 1, {}], as Silero's graph gives", model_.where(),
             kStateWidth);
      if (!std::isfinite(outputs[0].values[0])) fail("{}: the chance of speech is no number", model_.where());
      chances.push_back(static_cast<double>(outputs[0].values[0]));
      state = std::move(outputs[1].values);
    }
    return chances;
  }

  GraphModel model_;
  bool has_rate_ = false;
};

TaskParameters voice_activity_parameters() {
  using Type = TaskParameter::Type;
  return {{"threshold", Type::kNumber, "the chance from which on somebody speaks", "0.5"},
          {"neg_threshold", Type::kNumber, "the chance below which nobody speaks", "threshold less 0.15"},
          {"min_speech_duration_ms", Type::kNumber, "shorter parts are left out", "250"},
          {"max_speech_duration_s", Type::kNumber, "longer parts are cut at their longest silence; 0: none is", "0"},
          {"min_silence_duration_ms", Type::kNumber, "shorter silence is part of the speech around it", "100"},
          {"speech_pad_ms", Type::kNumber, "what is added before and behind each part", "30"},
          {"sampling_rate", Type::kInteger, "samples a second that the graph hears: 16000 or 8000", "16000"}};
}

std::unique_ptr<Pipeline> load_voice_activity(const std::string& directory, const LoadOptions& options,
                                              const std::string& /*task*/) {
  if (!GraphModel::is_of(directory)) fail("{}: voice-activity-detection: expected an ONNX graph of Silero", directory);
  return std::make_unique<VoiceActivityDetection>(GraphModel::load(directory, options));
}

constexpr TaskRecord kVoiceActivityDetection{.name = "voice-activity-detection",
                                             .example = "call.wav --min_silence_duration_ms 300 --json",
                                             .input = InputKind::kAudio,
                                             .result = ResultKind::kTranscription,
                                             .parameters = voice_activity_parameters,
                                             .load = load_voice_activity};
const RegisterTask kRegisterVoiceActivityDetection(kVoiceActivityDetection);

}  // namespace
}  // namespace transom
