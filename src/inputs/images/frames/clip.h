// SPDX-License-Identifier: Apache-2.0
// The frames of a video as a model takes them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "inputs/images/image_processor.h"

namespace transom {

struct Clip {
  int64_t frames = 0, height = 0, width = 0;
  std::vector<float> values;  // [frames, 3, height, width]

  // The next frame; all have to be of one size. `where` names the video.
  void add(const ImageProcessor::Pixels& frame, const std::string& where) {
    if (frames == 0) height = frame.height, width = frame.width;
    if (frame.height != height || frame.width != width)
      fail("{}: frame {} becomes {} x {} pixels, and those before {} x {}: expected frames of one size", where,
           frames + 1, frame.width, frame.height, width, height);
    values.insert(values.end(), frame.values.begin(), frame.values.end());
    ++frames;
  }
  bool is_like(const Clip& other) const {
    return frames == other.frames && height == other.height && width == other.width;
  }
};

}  // namespace transom
