// SPDX-License-Identifier: Apache-2.0
// Where the EXIF data of a file are, and the orientation in them. Data that make no sense count as none.
#include <algorithm>
#include <cstring>

#include "inputs/images/formats.h"

namespace transom {
namespace {

uint64_t number(Bytes bytes, size_t at, size_t size, bool little) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value = value << 8 | std::to_integer<uint64_t>(bytes[little ? at + size - 1 - i : at + i]);
  return value;
}

bool is(Bytes bytes, size_t at, std::string_view mark) {
  return bytes.size() >= mark.size() && at <= bytes.size() - mark.size() &&
         std::memcmp(bytes.data() + at, mark.data(), mark.size()) == 0;
}

// The TIFF structure inside the file.
Bytes in_jpeg(Bytes file) {
  for (size_t at = 2; at + 4 <= file.size() && number(file, at, 1, false) == 0xff;) {
    const uint64_t marker = number(file, at + 1, 1, false), size = number(file, at + 2, 2, false);
    if (marker == 0xda || size < 2 || size > file.size() - at - 2) break;
    if (marker == 0xe1 && size >= 8 && is(file, at + 4, std::string_view("Exif\0", 5)))
      return file.subspan(at + 10, size - 8);
    at += 2 + size;
  }
  return {};
}
Bytes in_png(Bytes file) {
  for (size_t at = 8; at + 8 <= file.size();) {
    const uint64_t size = number(file, at, 4, false);
    if (size > file.size() - at - 8) break;
    if (is(file, at + 4, "eXIf")) return file.subspan(at + 8, size);
    at += 12 + size;
  }
  return {};
}
Bytes in_webp(Bytes file) {
  for (size_t at = 12; at + 8 <= file.size();) {
    const uint64_t size = number(file, at + 4, 4, true);
    if (size > file.size() - at - 8) break;
    if (is(file, at, "EXIF")) {
      const Bytes data = file.subspan(at + 8, size);
      return is(data, 0, std::string_view("Exif\0\0", 6)) ? data.subspan(6) : data;
    }
    at += 8 + size + size % 2;
  }
  return {};
}

constexpr uint64_t kOrientation = 0x112, kShort = 3, kLong = 4, kByte = 1;

}  // namespace

int exif_orientation(Bytes file) {
  const Bytes tiff = is(file, 0, "\x89PNG") ? in_png(file) : is(file, 0, "RIFF") ? in_webp(file) : in_jpeg(file);
  const bool little = is(tiff, 0, "II");
  if (tiff.size() < 10 || (!little && !is(tiff, 0, "MM")) || number(tiff, 2, 2, little) != 42) return 1;
  const uint64_t directory = number(tiff, 4, 4, little);
  if (directory > tiff.size() - 2) return 1;
  const uint64_t entries = number(tiff, directory, 2, little);
  for (uint64_t i = 0, at = directory + 2; i < entries && at + 12 <= tiff.size(); ++i, at += 12) {
    if (number(tiff, at, 2, little) != kOrientation) continue;
    const uint64_t type = number(tiff, at + 2, 2, little);
    const size_t size = type == kShort ? 2 : type == kLong ? 4 : type == kByte ? 1 : 0;
    if (size == 0 || number(tiff, at + 4, 4, little) < 1) return 1;
    const uint64_t value = number(tiff, at + 8, size, little);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image oriented(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  // Where the pixel (x, y) of the result comes from: mirrored in a diagonal for 5 to 8, then along the axes.
  const bool transposed = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image result(transposed ? image.height : image.width, transposed ? image.width : image.height);
  result.transparent = image.transparent;
  for (int64_t y = 0; y < result.height; ++y)
    for (int64_t x = 0; x < result.width; ++x) {
      int64_t column = transposed ? y : x, row = transposed ? x : y;
      if (from_right) column = image.width - 1 - column;
      if (from_bottom) row = image.height - 1 - row;
      std::copy_n(image.row(row) + 3 * column, 3, result.row(y) + 3 * x);
    }
  return result;
}

}  // namespace transom
