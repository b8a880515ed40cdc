// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "inputs/images/formats.h"

namespace transom {

void expect_extents(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxPixels || height > kMaxPixels / width)
    fail("an image of {} x {} pixels: expected at least 1 and at most {} in all", width, height, kMaxPixels);
}

void expect_canvas(const std::string& where, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxPixels / height)
    fail("{}: a canvas of {} x {} pixels: expected at least 1 and at most {} in all", where, width, height, kMaxPixels);
}

Image::Image(int64_t w, int64_t h) : width(w), height(h) {
  expect_extents(w, h);
  pixels.resize(static_cast<size_t>(3 * w * h));
}

bool begins(Bytes bytes, std::string_view mark, size_t at) {
  return bytes.size() >= at + mark.size() && std::memcmp(bytes.data() + at, mark.data(), mark.size()) == 0;
}

bool is_gif(Bytes bytes) { return begins(bytes, "GIF87a") || begins(bytes, "GIF89a"); }

namespace {

// What the first bytes say of a file that is not read, for the message.
std::string_view kind_of_other(Bytes bytes) {
  struct Mark {
    std::string_view mark;
    size_t at;
    std::string_view kind;
  };
  using namespace std::string_view_literals;
  static constexpr Mark kMarks[] = {{"II*\0"sv, 0, "TIFF"},
                                    {"MM\0*"sv, 0, "TIFF"},
                                    {"ftypavif", 4, "AVIF"},
                                    {"ftypheic", 4, "HEIC"},
                                    {"ftypmif1", 4, "HEIC"},
                                    {"jP  \r\n", 4, "JPEG 2000"},
                                    {"\xff\x0a", 0, "JPEG XL"},
                                    {"JXL \r\n", 4, "JPEG XL"},
                                    {"\0\0\1\0"sv, 0, "ICO"},
                                    {"8BPS", 0, "PSD"},
                                    {"<svg", 0, "SVG"},
                                    {"<!DOCTYPE html", 0, "HTML"},
                                    {"<html", 0, "HTML"},
                                    {"%PDF", 0, "PDF"},
                                    {"version https://git-lfs", 0, "Git LFS (a pointer; 'git lfs pull' fetches it)"}};
  for (const Mark& mark : kMarks)
    if (begins(bytes, mark.mark, mark.at)) return mark.kind;
  const bool is_netpbm = begins(bytes, "P") && bytes.size() > 2 && bytes[1] >= std::byte{'1'} &&
                         bytes[1] <= std::byte{'6'} && std::isspace(static_cast<unsigned char>(bytes[2]));
  return is_netpbm ? "PPM, PGM or PBM" : "";
}

}  // namespace

Image decode_image(Bytes bytes, const std::string& where) {
  if (begins(bytes, kPngMark)) return oriented(decode_png(bytes, where), exif_orientation(bytes));
  if (begins(bytes, "\xff\xd8\xff")) return oriented(decode_jpeg(bytes, where), exif_orientation(bytes));
  if (begins(bytes, "RIFF") && begins(bytes, "WEBP", 8))
    return oriented(decode_webp(bytes, where), exif_orientation(bytes));
  if (is_gif(bytes)) return decode_gif(bytes, where);
  if (begins(bytes, "BM")) return decode_bmp(bytes, where);
  constexpr std::string_view kExpected = "expected a PNG, JPEG, WebP, GIF or BMP image";
  if (bytes.empty()) fail("{}: {}; it is empty", where, kExpected);
  if (const std::string_view kind = kind_of_other(bytes); !kind.empty())
    fail("{}: {}; its first bytes are those of {}", where, kExpected, kind);
  fail("{}: {}; its first bytes are those of none", where, kExpected);
}

Image read_image(const std::filesystem::path& path) {
  if (const std::string name = path.string(); name.starts_with("http://") || name.starts_with("https://"))
    fail("{}: pictures are read from files, and nothing is fetched; download it first", name);
  const std::string file = read_file(path);
  return decode_image(std::as_bytes(std::span(file.data(), file.size())), path.string());
}

bool is_image_name(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  static const std::string known[] = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"};
  return std::find(std::begin(known), std::end(known), end) != std::end(known);
}

Image crop(const Image& image, int64_t left, int64_t top, int64_t width, int64_t height) {
  Image result(width, height);
  const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + width, image.width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + height, image.height) && first < last; ++y)
    std::copy_n(image.row(y) + 3 * first, 3 * (last - first), result.row(y - top) + 3 * (first - left));
  return result;
}

Image on_white(Image image) {
  if (!image.transparent) return image;
  for (size_t i = 0; i < image.pixels.size(); i += 3)
    if (std::equal(image.transparent->begin(), image.transparent->end(),
                   image.pixels.begin() + static_cast<ptrdiff_t>(i)))
      std::memset(&image.pixels[i], 255, 3);
  image.transparent.reset();
  return image;
}

Image flipped(const Image& image) { return oriented(image, 2); }

uint8_t grey_of(const uint8_t* pixel) {
  return static_cast<uint8_t>((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

}  // namespace transom
