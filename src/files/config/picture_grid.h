// SPDX-License-Identifier: Apache-2.0
// Pictures of any form in a grid of parts (LLaVA-NeXT): which of several resolutions a picture gets, and what of the
// grid lies on it, with the roundings of Transformers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/config.h"

namespace transom {

struct PictureSize {
  int64_t height = 0, width = 0;
};

// Of LLaVA-NeXT, and of LLaVA-OneVision: one to six parts of 384 pixels along each edge.
std::vector<PictureSize> llava_next_resolutions();
std::vector<PictureSize> onevision_resolutions();
// A list of [height, width], or `otherwise` where there is none.
std::vector<PictureSize> read_resolutions(const Config& config, const std::string& field,
                                          std::vector<PictureSize> otherwise = llava_next_resolutions());
// Refuses resolutions that are not whole parts of `part` x `part` pixels.
void expect_multiples(const std::vector<PictureSize>& resolutions, int64_t part, const std::string& where);

// The one in which most of the picture's pixels count, and of these the one with the least margins.
PictureSize best_resolution(PictureSize picture, const std::vector<PictureSize>& resolutions);
// The extents of a picture that is as large as fits into a resolution.
PictureSize fitted_into(PictureSize picture, PictureSize resolution);

// The rows and columns of a grid on which the picture lies, in the middle of margins.
struct GridInside {
  int64_t top = 0, height = 0, left = 0, width = 0;
};
GridInside inside_of_grid(PictureSize picture, PictureSize grid);

// N of vision_aspect_ratio "anyres_max_N", where it says nothing 9.
int64_t most_of_aspect_ratio(const Config& config);
// The extents of the places inside a grid whose parts have `side` x `side` of them: as they are, or where they are more
// than those of `most` parts by a fifth, so many. 0: as they are.
PictureSize fewer_places(const GridInside& inside, int64_t side, int64_t most);

}  // namespace transom
