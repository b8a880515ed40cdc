// SPDX-License-Identifier: Apache-2.0
// Pictures that were written are read again with the same values, of every kind that PNG has.
#include "inputs/images/write_png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <random>

#include "base/files/files.h"
#include "inputs/images/image.h"
#include "support/message.h"
#include "support/word_models.h"

namespace transom {
namespace {

template <typename Value>
Picture picture_of(int64_t width, int64_t height, int64_t channels) {
  std::mt19937 random(7);
  std::vector<Value> values(static_cast<size_t>(width * height * channels));
  for (Value& value : values) value = static_cast<Value>(random());
  return {width, height, channels, std::move(values)};
}

// What libpng reads, value by value, without any conversion.
Picture read_whole(const std::string& bytes) {
  struct Rest {
    const std::string& bytes;
    size_t at = 0;
  } rest{bytes};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &rest, [](png_structp reader, png_bytep to, size_t count) {
    auto* from = static_cast<Rest*>(png_get_io_ptr(reader));
    from->bytes.copy(reinterpret_cast<char*>(to), count, from->at);
    from->at += count;
  });
  png_read_png(png, info, PNG_TRANSFORM_SWAP_ENDIAN, nullptr);
  Picture picture{png_get_image_width(png, info), png_get_image_height(png, info), png_get_channels(png, info), {}};
  const auto row = static_cast<size_t>(picture.width * picture.channels);
  const auto copy = [&](auto values) {
    for (int64_t y = 0; y < picture.height; ++y) {
      const auto* from = reinterpret_cast<const typename decltype(values)::value_type*>(png_get_rows(png, info)[y]);
      values.insert(values.end(), from, from + row);
    }
    picture.values = std::move(values);
  };
  if (png_get_bit_depth(png, info) == 16) copy(std::vector<uint16_t>());
  else copy(std::vector<uint8_t>());
  png_destroy_read_struct(&png, &info, nullptr);
  return picture;
}

TEST(WritePng, KeepsEveryValue) {
  for (int64_t channels = 1; channels <= 4; ++channels)
    for (const auto& [width, height] : {std::pair{1, 1}, {7, 5}, {1, 300}, {301, 2}})
      for (const Picture& picture :
           {picture_of<uint8_t>(width, height, channels), picture_of<uint16_t>(width, height, channels)}) {
        const Picture found = read_whole(encode_png(picture));
        EXPECT_EQ(found.width, width);
        EXPECT_EQ(found.height, height);
        EXPECT_EQ(found.channels, channels);
        EXPECT_TRUE(found.values == picture.values) << width << " x " << height << " x " << channels;
      }
}

TEST(WritePng, TheReaderReadsIt) {
  const Picture colors = picture_of<uint8_t>(9, 4, 3);
  const std::string bytes = encode_png(colors);
  EXPECT_EQ(bytes, encode_png(colors));
  const Image image = decode_image(std::as_bytes(std::span(bytes)), "written");
  EXPECT_EQ(image.width, 9);
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.pixels, std::get<std::vector<uint8_t>>(colors.values));
  const std::string gray = encode_png(picture_of<uint8_t>(2, 1, 1));
  const Image read = decode_image(std::as_bytes(std::span(gray)), "written");
  EXPECT_EQ(read.pixels[0], read.pixels[2]);
}

TEST(WritePng, FilesAreWhole) {
  const test::TemporaryFolder folder;
  const Picture picture = picture_of<uint16_t>(3, 3, 1);
  write_png(folder / "a.png", picture);
  EXPECT_EQ(read_file(folder / "a.png"), encode_png(picture));
  Picture broken = picture;
  broken.height = 4;
  EXPECT_NE(test::message_of([&] { write_png(folder / "a.png", broken); }).find("a.png: expected 3 x 4 pixels"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "a.png"), encode_png(picture)) << "the file from before stays";
}

TEST(WritePng, HostileExtentsAreRefused) {
  const auto refused = [](int64_t width, int64_t height, int64_t channels) {
    return test::message_of([&] { encode_png({width, height, channels, std::vector<uint8_t>(8)}, "it"); });
  };
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{0, 1},
                                      {1, 0},
                                      {-1, 8},
                                      {1'000'001, 1},
                                      {1, 1'000'001},
                                      {1'000'000, 1'000'000},
                                      {INT64_MAX, 2},
                                      {INT64_MIN, INT64_MIN},
                                      {int64_t{1} << 32, 1}})
    EXPECT_NE(refused(width, height, 1).find("it: expected extents"), std::string::npos) << width << ' ' << height;
  for (const int64_t channels : {int64_t{0}, int64_t{5}, int64_t{-1}, INT64_MAX})
    EXPECT_NE(refused(2, 2, channels).find("1 to 4 channels"), std::string::npos) << channels;
  EXPECT_NE(refused(2, 2, 1).find("found 8 values"), std::string::npos);
  EXPECT_NE(refused(3, 1, 3).find("found 8 values"), std::string::npos);
}

}  // namespace
}  // namespace transom
