// SPDX-License-Identifier: Apache-2.0
// The frames of a GIF by giflib, one after the other on their canvas, as Pillow shows them.
#pragma once

#include <memory>
#include <string>

#include "inputs/images/formats.h"

namespace transom {

class GifFrames {
 public:
  // The bytes stay the caller's. Refuses what is no GIF; memory is taken with the first frame.
  GifFrames(Bytes bytes, std::string where);
  ~GifFrames();
  GifFrames(const GifFrames&) = delete;
  GifFrames& operator=(const GifFrames&) = delete;

  // Draws the next frame; false behind the last one. Refuses broken files, and frames behind the first that leave the
  // canvas.
  bool next();
  // Passes over the next frame without drawing it, to count them; next() is of no use afterwards.
  bool skip();
  const Image& canvas() const;
  Image take_canvas();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace transom
