// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image file: a picture or an Error, and so its frames.
#include "inputs/images/image.h"

#include <numeric>
#include <vector>

#include "inputs/images/frames/video_file.h"
#include "inputs/images/image_extents.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  transom::image_extents(std::as_bytes(std::span(data, size)));
  try {
    transom::decode_image(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const transom::Error&) {
  }
  try {
    std::vector<int64_t> places(16);
    std::iota(places.begin(), places.end(), 0);
    transom::decode_frames(std::as_bytes(std::span(data, size)), "fuzz", places, [](const transom::Image&) {});
  } catch (const transom::Error&) {
  }
  return 0;
}
