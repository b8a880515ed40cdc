// SPDX-License-Identifier: Apache-2.0
// The tiles of Llama 3.2 Vision (Grattafiori et al., "The Llama 3 herd of models", 2024).
#pragma once

#include <memory>

#include "inputs/images/picture_cutter.h"

namespace transom {

// By max_image_tiles and size, that of a tile.
std::shared_ptr<const PictureCutter> make_canvas_cutter(const Config& config, Resampling resampling);

}  // namespace transom
