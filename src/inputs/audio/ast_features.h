// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/config/config.h"
#include "inputs/audio/feature_extractor.h"

namespace transom {

// The filter bank of AST (Gong et al., 2021), computed as Kaldi does it.
std::unique_ptr<FeatureExtractor> ast_features(const Config& config);

}  // namespace transom
