// SPDX-License-Identifier: Apache-2.0
// Pictures in memory, from files, and resampled. What comes out is what Pillow gives for the same file:
// ImageOps.exif_transpose, then convert("RGB").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// RGB, 8 bits each, row by row from the top left.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
  // The colour that a file without an alpha channel calls transparent, as Pillow keeps it behind convert("RGB").
  std::optional<std::array<uint8_t, 3>> transparent;

  Image() = default;
  // Black. Refuses extents below 1, and pictures above kMaxPixels.
  Image(int64_t width, int64_t height);
  uint8_t* row(int64_t y) { return pixels.data() + 3 * width * y; }
  const uint8_t* row(int64_t y) const { return pixels.data() + 3 * width * y; }
};

// As many as Pillow opens before it takes the file for an attack.
constexpr int64_t kMaxPixels = 178'956'970;
// Refuses extents below 1, and pictures above kMaxPixels.
void expect_extents(int64_t width, int64_t height);

// PNG, JPEG, WebP, GIF and BMP, known by their first bytes; of animations the first frame. Transparency is left out,
// the orientation that EXIF data say is applied. `where` names the source in errors.
Image decode_image(std::span<const std::byte> bytes, const std::string& where);
Image read_image(const std::filesystem::path& path);

// Whether a file's name ends as one of the known formats does.
bool is_image_name(const std::filesystem::path& path);

enum class Resampling { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4, kHamming = 5 };  // Pillow's

// Pillow's Image.resize, equal to the last bit: where the picture shrinks, the filter widens, so that every pixel
// counts; in fixed point, rounded to 8 bits after each of the two passes.
Image resize(const Image& image, int64_t width, int64_t height, Resampling resampling);
// The same for the part of the picture from (left, top), `box_width` x `box_height` pixels.
Image resize_box(const Image& image, int64_t left, int64_t top, int64_t box_width, int64_t box_height, int64_t width,
                 int64_t height, Resampling resampling);
// The same filters over `levels` of the bytes, nothing rounded to bytes on the way (torch.nn.functional.interpolate
// with antialias): three planes [height, width].
std::vector<float> resize_levels(const Image& image, const std::array<float, 256>& levels, int64_t width,
                                 int64_t height, Resampling resampling);

// The part from (left, top) on; what lies outside of the picture is black.
Image crop(const Image& image, int64_t left, int64_t top, int64_t width, int64_t height);
Image flipped(const Image& image);      // left to right
uint8_t grey_of(const uint8_t* pixel);  // of three colours, as Pillow has it
// White in place of the transparent colour.
Image on_white(Image image);

}  // namespace transom
