// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo, with the settings of Pillow.
#include <cstdio>

#include <jpeglib.h>

#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "inputs/images/formats.h"

namespace transom {
namespace {

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg knows a pointer to it
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}
void say_nothing(j_common_ptr) {}
// A file that ends too early, or holds nonsense between its parts, is decoded as far as it goes by libjpeg; Pillow
// refuses the first.
void warn(j_common_ptr info, int level) {
  if (level < 0) {
    ++info->err->num_warnings;
    if (info->err->msg_code != 0 && std::strstr(info->err->jpeg_message_table[info->err->msg_code], "Premature end"))
      leave(info);
  }
}

// libjpeg leaves a failing call by longjmp, past destructors: so each step is a function without any, false on failure.
bool read_jpeg_header(jpeg_decompress_struct& info, Errors& errors, Bytes bytes) {
  if (setjmp(errors.back)) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  return true;
}
bool read_jpeg_rows(jpeg_decompress_struct& info, Errors& errors, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(errors.back)) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

class Decompressor {
 public:
  Decompressor() {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.output_message = say_nothing;
    errors.base.emit_message = warn;
    jpeg_create_decompress(&info);
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  jpeg_decompress_struct info;
  Errors errors;
};

// CMYK as Adobe's programs write it, inverted, to RGB by Pillow's arithmetic.
void to_rgb(const uint8_t* cmyk, uint8_t* rgb) {
  const int white = cmyk[3];  // 255 - black
  for (int c = 0; c < 3; ++c) {
    const int ink = 255 - cmyk[c], product = ink * white + 128, scaled = (product + (product >> 8)) >> 8;
    rgb[c] = static_cast<uint8_t>(std::max(white - scaled, 0));
  }
}

}  // namespace

Image decode_jpeg(Bytes bytes, const std::string& where) {
  Decompressor jpeg;
  const auto expect = [&](bool good) {
    if (!good) fail("{}: a broken JPEG file: {}", where, static_cast<const char*>(jpeg.errors.message));
  };
  expect(read_jpeg_header(jpeg.info, jpeg.errors, bytes));
  Image image(jpeg.info.image_width, jpeg.info.image_height);
  if (jpeg.info.out_color_space == JCS_RGB) {
    expect(read_jpeg_rows(jpeg.info, jpeg.errors, image.pixels.data(), static_cast<size_t>(3 * image.width)));
    return image;
  }
  std::vector<uint8_t> inks(static_cast<size_t>(4 * image.width * image.height));
  expect(read_jpeg_rows(jpeg.info, jpeg.errors, inks.data(), static_cast<size_t>(4 * image.width)));
  for (size_t i = 0; i < inks.size() / 4; ++i) to_rgb(&inks[4 * i], &image.pixels[3 * i]);
  return image;
}

}  // namespace transom
