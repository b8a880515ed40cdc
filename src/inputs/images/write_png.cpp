// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/write_png.h"

#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstring>
#include <new>
#include <tuple>

#include "base/error.h"
#include "base/files/files.h"
#include "inputs/images/image.h"

namespace transom {
namespace {

constexpr int64_t kMostPngExtent = 1'000'000;  // as the reader has it

struct Sink {
  std::string bytes;
  char message[200] = "";
};

void append_png_bytes(png_structp png, png_bytep from, size_t count) {
  bool full = false;
  try {
    static_cast<Sink*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(from), count);
  } catch (const std::bad_alloc&) {
    full = true;  // an exception must not pass through libpng
  }
  if (full) png_error(png, "there is no memory for the file");
}
void nothing_to_flush(png_structp) {}
void keep_writer_message(png_structp png, png_const_charp text) {
  auto* sink = static_cast<Sink*>(png_get_error_ptr(png));
  std::strncpy(sink->message, text, sizeof sink->message - 1);
  png_longjmp(png, 1);
}
void ignore_writer_warning(png_structp, png_const_charp) {}

struct PngWriter {
  png_structp png;
  png_infop info;
  explicit PngWriter(Sink& sink)
      : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, keep_writer_message, ignore_writer_warning)),
        info(png ? png_create_info_struct(png) : nullptr) {
    if (!info) {
      png_destroy_write_struct(&png, nullptr);
      fail("libpng could not be set up");
    }
    png_set_write_fn(png, &sink, append_png_bytes, nothing_to_flush);
  }
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
};

// Without destructors, which libpng's longjmp would pass by; false on failure.
bool write_png_rows(const PngWriter& writer, const Picture& picture, int depth, png_bytepp rows) {
  constexpr int kColors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                             PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(writer.png))) return false;
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), depth, kColors[picture.channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if (depth == 16 && std::endian::native == std::endian::little) png_set_swap(writer.png);
  png_write_image(writer.png, rows);
  png_write_end(writer.png, nullptr);
  return true;
}

template <typename Value>
std::string encode_values(const Picture& picture, const std::vector<Value>& values, const std::string& where) {
  const auto row = static_cast<size_t>(picture.width * picture.channels);
  if (values.size() != row * static_cast<size_t>(picture.height))
    fail("{}: expected {} x {} pixels of {} values, found {} values", where, picture.width, picture.height,
         picture.channels, values.size());
  std::vector<png_bytep> rows;
  for (size_t y = 0; y < static_cast<size_t>(picture.height); ++y)  // libpng reads them only
    rows.push_back(reinterpret_cast<png_bytep>(const_cast<Value*>(values.data() + y * row)));
  Sink sink;
  const PngWriter writer(sink);
  if (!write_png_rows(writer, picture, 8 * sizeof(Value), rows.data()))
    fail("{}: cannot be written as PNG: {}", where, sink.message);
  return std::move(sink.bytes);
}

}  // namespace

std::string encode_png(const Picture& picture, const std::string& where) {
  const auto [width, height, channels] = std::tie(picture.width, picture.height, picture.channels);
  if (width < 1 || width > kMostPngExtent || height < 1 || height > kMostPngExtent || width * height > kMaxPixels)
    fail("{}: expected extents of 1 to {} and at most {} pixels, found {} x {}", where, kMostPngExtent, kMaxPixels,
         width, height);
  if (channels < 1 || channels > 4) fail("{}: expected 1 to 4 channels, found {}", where, channels);
  return std::visit([&](const auto& values) { return encode_values(picture, values, where); }, picture.values);
}

void write_png(const std::filesystem::path& path, const Picture& picture) {
  write_file(path, encode_png(picture, path.string()));
}

}  // namespace transom
