// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/config/config.h"
#include "inputs/audio/feature_extractor.h"

namespace transom {

// The log-mel spectrogram of CLAP (Wu et al., 2023): sounds are repeated until they fill their length, and of longer
// ones the beginning is heard. Several cuts of a long sound (truncation "fusion") are refused.
std::unique_ptr<FeatureExtractor> clap_features(const Config& config);

}  // namespace transom
