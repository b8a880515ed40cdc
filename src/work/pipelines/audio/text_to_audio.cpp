// SPDX-License-Identifier: Apache-2.0
// The sound of a text: by a model of a family that speaks, or by an ONNX graph.
#include "work/pipelines/audio/graph_speech.h"
#include "work/pipelines/audio/model_speech.h"
#include "work/pipelines/onnx/graph_model.h"

namespace transom {
namespace {

TaskParameters text_to_audio_parameters() { return speech_parameters(); }

std::unique_ptr<Pipeline> load_text_to_audio(const std::string& directory, const LoadOptions& options,
                                             const std::string& /*task*/) {
  return GraphModel::is_of(directory) ? load_graph_speech(directory, options) : load_model_speech(directory, options);
}

constexpr TaskRecord kTextToAudio{.name = "text-to-audio",
                                  .alias = "text-to-speech",
                                  .example = "\"Good morning.\" --voice af_heart --output morning.wav",
                                  .input = InputKind::kText,
                                  .result = ResultKind::kSound,
                                  .parameters = text_to_audio_parameters,
                                  .load = load_text_to_audio};
const RegisterTask kRegisterTextToAudio(kTextToAudio);

}  // namespace
}  // namespace transom
