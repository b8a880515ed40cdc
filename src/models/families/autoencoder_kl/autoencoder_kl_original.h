// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "files/family/original.h"

namespace transom {

// The autoencoder in CompVis' files, which Stability, Black Forest Labs and ComfyUI have as well.
std::vector<OriginalLayout> autoencoder_kl_original();

}  // namespace transom
