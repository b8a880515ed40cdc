// SPDX-License-Identifier: Apache-2.0
// PNG by libpng. 16-bit colours keep their high byte; 16-bit grays above 255 are white, as Pillow has it.
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "inputs/images/formats.h"

namespace transom {
namespace {

struct Source {
  Bytes bytes;
  size_t at = 0;
  char message[200] = "";
};

void read_png_bytes(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->at) png_error(png, "the file ends too early");
  std::memcpy(to, source->bytes.data() + source->at, count);
  source->at += count;
}
void keep_message(png_structp png, png_const_charp text) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->message, text, sizeof source->message - 1);
  png_longjmp(png, 1);
}
void ignore_warning(png_structp, png_const_charp) {}

struct Header {
  png_uint_32 width = 0, height = 0;
  int depth = 0, colors = 0;
};

// libpng leaves a failing call by longjmp, past destructors: so each step is a function without any, false on failure.
bool read_png_header(png_structp png, png_infop info, Header& header) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  png_get_IHDR(png, info, &header.width, &header.height, &header.depth, &header.colors, nullptr, nullptr, nullptr);
  return true;
}
bool read_png_rows(png_structp png, png_infop info, const Header& header, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  const bool gray = (header.colors & PNG_COLOR_MASK_COLOR) == 0;
  if (header.colors == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  else if (gray && header.depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  const bool wide_gray = header.colors == PNG_COLOR_TYPE_GRAY && header.depth == 16;
  if (header.depth == 16 && !wide_gray) png_set_strip_16(png);
  // A palette may have an alpha of its own (tRNS), which it brings along to the colours.
  if ((header.colors & PNG_COLOR_MASK_ALPHA) || header.colors == PNG_COLOR_TYPE_PALETTE) png_set_strip_alpha(png);
  if (gray && !wide_gray) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != png_size_t{header.width} * (wide_gray ? 2 : 3))
    png_error(png, "its rows have another length than its header says");
  png_read_image(png, rows);
  return true;
}

// The same in four bytes a pixel, the last of which is the alpha.
bool read_png_rows_with_alpha(png_structp png, png_infop info, const Header& header, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_expand(png);
  if (header.depth == 16) png_set_strip_16(png);
  if ((header.colors & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != png_size_t{header.width} * 4)
    png_error(png, "its rows have another length than its header says");
  png_read_image(png, rows);
  return true;
}

// The one colour that tRNS makes transparent; none where a palette has colours in between. Called before rows are read,
// so that grays below 8 bits are as the file writes them, which is what Pillow compares.
std::optional<std::array<uint8_t, 3>> transparent_color(png_structp png, png_infop info, const Header& header) {
  png_bytep alphas = nullptr;
  png_color_16p color = nullptr;
  int count = 0;
  if (header.depth > 8 || !png_get_tRNS(png, info, &alphas, &count, &color)) return std::nullopt;
  if (header.colors == PNG_COLOR_TYPE_GRAY && header.depth > 1) {
    const auto gray = static_cast<uint8_t>(color->gray);
    return std::array{gray, gray, gray};
  }
  if (header.colors == PNG_COLOR_TYPE_RGB)
    return std::array{static_cast<uint8_t>(color->red), static_cast<uint8_t>(color->green),
                      static_cast<uint8_t>(color->blue)};
  png_colorp palette = nullptr;
  int colors = 0;
  if (header.colors != PNG_COLOR_TYPE_PALETTE || !png_get_PLTE(png, info, &palette, &colors)) return std::nullopt;
  const png_bytep end = alphas + count, first = std::find_if(alphas, end, [](png_byte a) { return a != 255; });
  if (first == end || *first != 0 || std::any_of(first + 1, end, [](png_byte a) { return a != 255; }) ||
      first - alphas >= colors)
    return std::nullopt;
  const png_color& found = palette[first - alphas];
  return std::array{found.red, found.green, found.blue};
}

class PngReader {
 public:
  explicit PngReader(Source& source)
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, keep_message, ignore_warning)),
        info_(png_ ? png_create_info_struct(png_) : nullptr) {
    if (!info_) fail("libpng could not be set up");
    png_set_read_fn(png_, &source, read_png_bytes);
    png_set_user_limits(png_, 1'000'000, 1'000'000);
    png_set_crc_action(png_, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  png_structp png() { return png_; }
  png_infop info() { return info_; }

 private:
  png_structp png_;
  png_infop info_;
};

}  // namespace

Image decode_png(Bytes bytes, const std::string& where) {
  Source source{bytes};
  PngReader reader(source);
  Header header;
  const auto expect = [&](bool good) {
    if (!good) fail("{}: a broken PNG file: {}", where, source.message);
  };
  expect(read_png_header(reader.png(), reader.info(), header));
  Image image(header.width, header.height);
  image.transparent = transparent_color(reader.png(), reader.info(), header);
  const bool wide_gray = header.colors == PNG_COLOR_TYPE_GRAY && header.depth == 16;
  std::vector<png_bytep> rows;
  // 16-bit grays take two bytes of the three that a pixel has, at the end of its row.
  for (int64_t y = 0; y < image.height; ++y) rows.push_back(image.row(y) + (wide_gray ? image.width : 0));
  expect(read_png_rows(reader.png(), reader.info(), header, rows.data()));
  if (wide_gray)
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x) {
        const uint8_t *from = rows[static_cast<size_t>(y)] + 2 * x, value = from[0] > 0 ? 255 : from[1];
        std::memset(image.row(y) + 3 * x, value, 3);
      }
  return image;
}

ImageLayer decode_png_layer(Bytes bytes, const std::string& where) {
  Source source{bytes};
  PngReader reader(source);
  Header header;
  const auto expect = [&](bool good) {
    if (!good) fail("{}: a broken PNG file: {}", where, source.message);
  };
  expect(read_png_header(reader.png(), reader.info(), header));
  expect_canvas(where, header.width, header.height);
  if (header.colors == PNG_COLOR_TYPE_GRAY && header.depth == 16)
    fail(ErrorKind::kUnsupported, "{}: frames of 16-bit grays are not carried out; write them in 8 bits", where);
  ImageLayer layer{header.width, header.height, {}};
  layer.pixels.resize(static_cast<size_t>(4 * layer.width * layer.height));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < layer.height; ++y) rows.push_back(layer.pixels.data() + 4 * layer.width * y);
  expect(read_png_rows_with_alpha(reader.png(), reader.info(), header, rows.data()));
  return layer;
}

std::optional<Image> transparent_places(Bytes bytes, const std::string& where) {
  if (!begins(bytes, kPngMark)) return std::nullopt;
  const ImageLayer layer = decode_png_layer(bytes, where);
  Image places(layer.width, layer.height);
  bool any = false;
  for (size_t i = 0; i < layer.pixels.size() / 4; ++i) {
    const bool is_open = layer.pixels[4 * i + 3] == 0;
    any = any || is_open;
    std::fill_n(places.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, is_open ? 255 : 0);
  }
  if (!any) return std::nullopt;
  return oriented(std::move(places), exif_orientation(bytes));
}

}  // namespace transom
