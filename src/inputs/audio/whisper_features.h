// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/config/config.h"
#include "inputs/audio/feature_extractor.h"

namespace transom {

// The log-mel spectrogram of Whisper (Radford et al., 2022).
std::unique_ptr<FeatureExtractor> whisper_features(const Config& config);

// Triangular filters that are equally wide on Slaney's mel scale and of equal area: [frequency bins, mel bins], the
// frequencies running from 0 to half of the sampling rate.
std::vector<double> slaney_mel_filters(int64_t frequency_bins, int64_t mel_bins, double lowest, double highest,
                                       int64_t sampling_rate);

}  // namespace transom
