// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/config/config.h"
#include "inputs/audio/feature_extractor.h"

namespace transom {

// The log-mel spectrogram of Whisper (Radford et al., 2022).
std::unique_ptr<FeatureExtractor> whisper_features(const Config& config);

}  // namespace transom
