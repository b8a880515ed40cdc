// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/image_extents.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace transom {
namespace {

using Extents = std::array<int64_t, 2>;

class FirstBytes {
 public:
  explicit FirstBytes(std::span<const std::byte> file) : file_(file) {}
  bool begins(std::string_view mark, size_t at = 0) const {
    return file_.size() >= at + mark.size() && std::memcmp(file_.data() + at, mark.data(), mark.size()) == 0;
  }
  bool holds(size_t at, size_t bytes) const { return at <= file_.size() && bytes <= file_.size() - at; }
  int64_t big(size_t at, size_t bytes) const {
    int64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<int64_t>(file_[at + i]);
    return value;
  }
  int64_t little(size_t at, size_t bytes) const {
    int64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<int64_t>(file_[at + i]);
    return value;
  }

 private:
  std::span<const std::byte> file_;
};

// The first frame header (SOF) among the segments.
std::optional<Extents> of_jpeg(const FirstBytes& file) {
  for (size_t at = 2; file.holds(at, 9);) {
    if (file.big(at, 1) != 0xff) return std::nullopt;
    const int64_t kind = file.big(at + 1, 1);
    if (kind == 0xff) {  // a filler
      ++at;
      continue;
    }
    if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc)
      return Extents{file.big(at + 7, 2), file.big(at + 5, 2)};
    if (kind == 0xd9 || kind == 0xda) return std::nullopt;
    const bool alone = kind == 0x01 || (kind >= 0xd0 && kind <= 0xd8);
    at += 2 + (alone ? 0 : static_cast<size_t>(file.big(at + 2, 2)));
  }
  return std::nullopt;
}

std::optional<Extents> of_webp(const FirstBytes& file) {
  if (file.begins("VP8X", 12) && file.holds(24, 6)) return Extents{file.little(24, 3) + 1, file.little(27, 3) + 1};
  if (file.begins("VP8L", 12) && file.holds(21, 4)) {
    const int64_t bits = file.little(21, 4);
    return Extents{(bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1};
  }
  if (file.begins("VP8 ", 12) && file.holds(26, 4))
    return Extents{file.little(26, 2) & 0x3fff, file.little(28, 2) & 0x3fff};
  return std::nullopt;
}

}  // namespace

std::optional<Extents> image_extents(std::span<const std::byte> bytes) {
  const FirstBytes file(bytes);
  if (file.begins("\x89PNG\r\n\x1a\n") && file.holds(16, 8)) return Extents{file.big(16, 4), file.big(20, 4)};
  if (file.begins("\xff\xd8\xff")) return of_jpeg(file);
  if (file.begins("RIFF") && file.begins("WEBP", 8)) return of_webp(file);
  if ((file.begins("GIF87a") || file.begins("GIF89a")) && file.holds(6, 4))
    return Extents{file.little(6, 2), file.little(8, 2)};
  if (file.begins("BM") && file.holds(18, 8)) {
    const auto signed_at = [&](size_t at) { return static_cast<int64_t>(static_cast<int32_t>(file.little(at, 4))); };
    if (file.little(14, 4) == 12) return Extents{file.little(18, 2), file.little(20, 2)};
    return Extents{signed_at(18), std::abs(signed_at(22))};
  }
  return std::nullopt;
}

}  // namespace transom
