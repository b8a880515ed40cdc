// SPDX-License-Identifier: Apache-2.0
// GIF: the first frame on its canvas, as Pillow shows it.
#include "inputs/images/formats.h"
#include "inputs/images/frames/gif_frames.h"

namespace transom {

Image decode_gif(Bytes bytes, const std::string& where) {
  GifFrames frames(bytes, where);
  frames.next();
  return frames.take_canvas();
}

}  // namespace transom
