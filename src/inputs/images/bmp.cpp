// SPDX-License-Identifier: Apache-2.0
// BMP of 1, 4, 8, 16, 24 and 32 bits a pixel. Run-length coded files are refused by name.
#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "inputs/images/formats.h"

namespace transom {
namespace {

class BmpReader {
 public:
  BmpReader(Bytes bytes, const std::string& where) : bytes_(bytes), where_(where) {}
  uint32_t number(size_t at, size_t size) const {  // little-endian
    if (size > bytes_.size() || at > bytes_.size() - size) fail("{}: a BMP file that ends too early", where_);
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint32_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  uint8_t byte(size_t at) const { return static_cast<uint8_t>(number(at, 1)); }

 private:
  Bytes bytes_;
  const std::string& where_;
};

// The bits of a channel, stretched to 8 (5 bits: 31 becomes 255).
uint8_t channel(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const uint32_t highest = mask >> std::countr_zero(mask);
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> std::countr_zero(mask)} * 255 / highest);
}

}  // namespace

Image decode_bmp(Bytes bytes, const std::string& where) {
  const BmpReader in(bytes, where);
  const uint32_t begin = in.number(10, 4), header = in.number(14, 4);
  const bool old = header == 12;  // OS/2 1.x
  if (!old && (header < 40 || header > 1024)) fail("{}: a BMP file with an unknown header of {} bytes", where, header);
  const int64_t width = old ? in.number(18, 2) : static_cast<int32_t>(in.number(18, 4));
  const int64_t signed_height = old ? in.number(20, 2) : static_cast<int32_t>(in.number(22, 4));
  const int64_t height = std::abs(signed_height);
  const uint32_t bits = old ? in.number(24, 2) : in.number(28, 2), compression = old ? 0 : in.number(30, 4);
  constexpr uint32_t kPlain = 0, kBitFields = 3, kAlphaBitFields = 6;
  if (compression != kPlain && compression != kBitFields && compression != kAlphaBitFields)
    fail("{}: a compressed BMP file (kind {}) is not read; convert it to PNG", where, compression);

  std::array<uint32_t, 3> masks{0xff0000, 0xff00, 0xff};
  if (bits == 16) masks = {0x7c00, 0x3e0, 0x1f};
  if (compression != kPlain) masks = {in.number(54, 4), in.number(58, 4), in.number(62, 4)};
  std::vector<std::array<uint8_t, 3>> palette;
  if (bits <= 8) {
    const uint32_t stored = old ? 0 : in.number(46, 4), colors = stored ? std::min(stored, 256u) : 1u << bits;
    const size_t entry = old ? 3 : 4;
    for (size_t i = 0; i < colors; ++i) {
      const size_t at = 14 + header + entry * i;
      palette.push_back({in.byte(at + 2), in.byte(at + 1), in.byte(at)});
    }
  }
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    fail("{}: a BMP file of {} bits a pixel; expected 1, 4, 8, 16, 24 or 32", where, bits);

  Image image(width, height);
  const size_t row_bytes = (static_cast<size_t>(width) * bits + 31) / 32 * 4;
  in.byte(begin + row_bytes * static_cast<size_t>(height - 1) + (static_cast<size_t>(width) * bits + 7) / 8 - 1);
  for (int64_t y = 0; y < height; ++y) {
    const size_t row = begin + row_bytes * static_cast<size_t>(signed_height > 0 ? height - 1 - y : y);
    uint8_t* to = image.row(y);
    for (int64_t x = 0; x < width; ++x, to += 3) {
      const size_t bit = static_cast<size_t>(x) * bits;
      if (bits <= 8) {
        const uint32_t index = in.byte(row + bit / 8) >> (8 - bits - bit % 8) & ((1u << bits) - 1);
        const auto color = index < palette.size() ? palette[index] : std::array<uint8_t, 3>{};
        std::copy(color.begin(), color.end(), to);
      } else {
        const uint32_t pixel = in.number(row + bit / 8, bits / 8);
        for (size_t c = 0; c < 3; ++c) to[c] = channel(pixel, masks[c]);
      }
    }
  }
  return image;
}

}  // namespace transom
