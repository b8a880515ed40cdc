// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/speech_options.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kMostText = 1 << 20;  // bytes

}  // namespace

TaskParameters speech_parameters() {
  using Type = TaskParameter::Type;
  return {{"voice", Type::kText, "whose voice speaks: the name of its table or vector, or the number of a speaker",
           "the first"},
          {"speed", Type::kNumber, "how fast, as a factor", "1"},
          {"language", Type::kText, "the language of the text, as espeak-ng names it", "that of the voice, or en-us"},
          {"phonemes", Type::kFlag, "the input is phonemes, which are not looked for", "false"},
          {"seed", Type::kInteger,
           "of the noise: the sound of Transformers after torch.manual_seed(SEED) (default: another each time)"},
          {"noise_scale", Type::kNumber, "of VITS: how much what is said varies", "the configuration's"},
          {"noise_scale_duration", Type::kNumber, "of VITS: how much its pace varies", "the configuration's"},
          {.name = "speaker_embeddings",
           .type = Type::kText,
           .help = "of SpeechT5: a file (.npy, .safetensors, .bin) of the vector that tells the voice",
           .otherwise = "the voice of voices/ beside the model",
           .is_path = true},
          {.name = "vocoder",
           .type = Type::kText,
           .help = "of SpeechT5: the directory of what makes sounds of spectra",
           .otherwise = "vocoder/ beside the model",
           .is_path = true},
          {"threshold", Type::kNumber, "of SpeechT5: how sure it is to be that the text has ended", "0.5"},
          {"minlenratio", Type::kNumber, "of SpeechT5: the least frames for each token", "0"},
          {"maxlenratio", Type::kNumber, "of SpeechT5: the most frames for each token", "20"}};
}

TaskParameters speech_parameters(std::initializer_list<std::string_view> names) {
  TaskParameters parameters = speech_parameters();
  std::erase_if(parameters, [&](const TaskParameter& parameter) {
    return std::find(names.begin(), names.end(), parameter.name) == names.end();
  });
  return parameters;
}

double speed_option(const TaskOptions& options) {
  const double speed = number_option(options, "speed").value_or(1);
  if (!(speed >= 0.1 && speed <= 10))
    fail(ErrorKind::kUsage, "speed: expected a number from 0.1 to 10, found {}", speed);
  return speed;
}

const std::string& spoken_text(const TaskInput& input) {
  const std::string& text = text_input(input).text;
  if (text.size() > kMostText) fail("the text: expected at most {} bytes, found {}", kMostText, text.size());
  return text;
}

}  // namespace transom
