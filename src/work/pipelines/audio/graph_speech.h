// SPDX-License-Identifier: Apache-2.0
// Speech of a text, by an ONNX graph that takes phonemes, a row of a voice, and a speed, as Kokoro does.
#pragma once

#include "work/pipelines/audio/speech_options.h"

namespace transom {

std::unique_ptr<Pipeline> load_graph_speech(const std::string& directory, const LoadOptions& options);

}  // namespace transom
