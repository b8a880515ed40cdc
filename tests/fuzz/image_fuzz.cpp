// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image file: a picture or an Error.
#include "images/image.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    transom::decode_image(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const transom::Error&) {
  }
  return 0;
}
