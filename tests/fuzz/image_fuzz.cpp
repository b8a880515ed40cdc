// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image file: a picture or an Error.
#include "inputs/images/image.h"

#include "inputs/images/image_extents.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  transom::image_extents(std::as_bytes(std::span(data, size)));
  try {
    transom::decode_image(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const transom::Error&) {
  }
  return 0;
}
