// SPDX-License-Identifier: Apache-2.0
// WebP by libwebp; of an animation the first frame on its canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "base/error.h"
#include "inputs/images/formats.h"

namespace transom {

Image decode_webp(Bytes bytes, const std::string& where) {
  const WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data.bytes, data.size, &features) != VP8_STATUS_OK) fail("{}: a broken WebP file", where);
  Image image(features.width, features.height);
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(WebPAnimDecoderNew(&data, &options),
                                                                                   &WebPAnimDecoderDelete);
  WebPAnimInfo info;
  uint8_t* canvas = nullptr;
  int time = 0;
  if (!decoder || !WebPAnimDecoderGetInfo(decoder.get(), &info) || info.canvas_width != image.width ||
      info.canvas_height != image.height || !WebPAnimDecoderGetNext(decoder.get(), &canvas, &time))
    fail("{}: a broken WebP file", where);
  for (size_t i = 0; i < image.pixels.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = canvas[4 * i + c];
  return image;
}

}  // namespace transom
