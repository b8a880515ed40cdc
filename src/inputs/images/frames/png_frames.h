// SPDX-License-Identifier: Apache-2.0
// The frames of an animated PNG (APNG), one after the other on their canvas. Each is handed to libpng as a picture of
// its own. Where a frame is laid over what is there, colours are mixed as Pillow mixes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inputs/images/formats.h"

namespace transom {

// Whether a PNG says so (acTL) before its first picture.
bool is_animated_png(Bytes bytes);

class PngFrames {
 public:
  // The bytes stay the caller's, and are those of an animated PNG.
  PngFrames(Bytes bytes, std::string where);

  // Draws the next frame; false behind the last one. A first picture that the animation leaves out is no frame. Refuses
  // broken files, and frames that leave the canvas.
  bool next();
  // Passes over the next frame without drawing it, to count them; next() is of no use afterwards.
  bool skip();
  const Image& canvas() const { return canvas_; }

 private:
  enum class Disposal { kKeep, kBackground, kPrevious };
  struct Chunk {
    std::string_view type;
    Bytes data, whole;  // whole: from the length to the checksum
  };
  struct Frame {
    int64_t width, height, left, top;
    Disposal disposal;
    bool over;
  };
  std::optional<Chunk> next_chunk();
  Frame frame_of(const Chunk& control) const;
  std::optional<Frame> find_frame();
  std::string picture_of(const Frame& frame);
  void draw(const Frame& frame, const ImageLayer& layer);
  void leave();

  std::string where_;
  Bytes rest_, header_;             // of IHDR
  std::vector<Bytes> palette_;      // PLTE and tRNS, whole
  std::optional<Chunk> pushed_;     // one that was read and is yet to be handled
  int64_t width_ = 0, height_ = 0;  // of the canvas
  Image canvas_, under_;            // under_: what was where the last frame is
  std::optional<Frame> last_;
};

}  // namespace transom
