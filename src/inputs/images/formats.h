// SPDX-License-Identifier: Apache-2.0
// One reader for each file format, without orientation. Each refuses what is broken or too large with an Error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/images/image.h"

namespace transom {

using Bytes = std::span<const std::byte>;

// Whether the mark stands at a place of the file.
bool begins(Bytes bytes, std::string_view mark, size_t at = 0);
bool is_gif(Bytes bytes);
constexpr std::string_view kPngMark = "\x89PNG\r\n\x1a\n";

Image decode_png(Bytes bytes, const std::string& where);
Image decode_jpeg(Bytes bytes, const std::string& where);
Image decode_webp(Bytes bytes, const std::string& where);
Image decode_gif(Bytes bytes, const std::string& where);
Image decode_bmp(Bytes bytes, const std::string& where);

// Refuses the extents of a canvas as expect_extents() does, and names the file.
void expect_canvas(const std::string& where, int64_t width, int64_t height);

// What is laid over a picture: RGB and alpha, 8 bits each, row by row.
struct ImageLayer {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};
ImageLayer decode_png_layer(Bytes bytes, const std::string& where);
// Of a PNG file: white where the picture is wholly transparent, black elsewhere, turned as its EXIF data say. Nothing
// where no pixel is, and of other files.
std::optional<Image> transparent_places(Bytes bytes, const std::string& where);

// The orientation (1 to 8) that the EXIF data of a PNG, JPEG or WebP file say; 1 where they say none.
int exif_orientation(Bytes file);
// Turned and mirrored as the orientation says.
Image oriented(Image image, int orientation);

}  // namespace transom
