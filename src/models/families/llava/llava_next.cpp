// SPDX-License-Identifier: Apache-2.0
// LLaVA-NeXT (Liu et al., 2024): of a picture the whole and a grid of parts.
#include "models/families/llava/picture_grid_reader.h"

namespace transom {
namespace {

class LlavaNextReader : public PictureGridReader {
 public:
  LlavaNextReader(const Config& config, const Scope& scope, int64_t width)
      : PictureGridReader(config, scope, width, {.resolutions = read_resolutions(config, "image_grid_pinpoints")}) {}
};

Family llava_next_family() { return llava_like("llava_next", "LlavaNext", make_llava_decoder<LlavaNextReader>, {}); }

const RegisterFamilies kLlavaNextFamily{llava_next_family};

}  // namespace
}  // namespace transom
