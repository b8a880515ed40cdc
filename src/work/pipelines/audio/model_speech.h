// SPDX-License-Identifier: Apache-2.0
// Speech of a text by a model of a family that speaks (models/shared/speech/speaking_model.h), with its tokenizer.
#pragma once

#include "work/pipelines/audio/speech_options.h"

namespace transom {

std::unique_ptr<Pipeline> load_model_speech(const std::string& directory, const LoadOptions& options);

}  // namespace transom
