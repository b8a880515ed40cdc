// SPDX-License-Identifier: Apache-2.0
// What fields of preprocessor_config.json do to the numbers, on pictures of one colour.
#include "inputs/images/image_processor.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

ImageProcessor processor(const std::string& type, const std::string& fields) {
  return {Config::parse("{" + fields + "}", "preprocessor_config.json"), type};
}

Image plain(uint8_t value) {
  Image image(4, 4);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

TEST(ImageProcessor, TheOffsetBelongsToTheScale) {
  const std::string fields = R"("rescale_offset": true, "rescale_factor": 0.0078125, "include_top": false,
    "do_normalize": false, "do_resize": false)";
  EXPECT_EQ(processor("EfficientNetImageProcessor", fields)(plain(192)).values[0], 0.5f);
  EXPECT_EQ(processor("EfficientNetImageProcessor", fields + R"(, "do_rescale": false)")(plain(192)).values[0], 192.f);
  // Other processors know no offset.
  EXPECT_EQ(processor("ViTImageProcessor", fields)(plain(192)).values[0], 1.5f);
}

TEST(ImageProcessor, IncludeTopDividesOnceMore) {
  const std::string fields = R"("rescale_factor": 0.0078125, "do_resize": false, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.5, 1])";
  const auto once = processor("EfficientNetImageProcessor", fields + R"(, "include_top": false)")(plain(128)).values;
  const auto twice = processor("EfficientNetImageProcessor", fields)(plain(128)).values;
  EXPECT_EQ((std::vector<float>{once[0], once[16], once[32]}), (std::vector<float>{2, 1, 0.5f}));
  EXPECT_EQ((std::vector<float>{twice[0], twice[16], twice[32]}), (std::vector<float>{8, 2, 0.5f}));
}

TEST(ImageProcessor, TheTransparentColourIsWhiteWhereColoursAreConverted) {
  Image image = plain(7);
  image.transparent = {7, 7, 7};
  const std::string fields =
      R"("do_resize": false, "do_center_crop": false, "do_rescale": false, "do_normalize": false)";
  EXPECT_EQ(processor("CLIPImageProcessor", fields)(image).values[0], 255.f);
  EXPECT_EQ(processor("BitImageProcessor", fields)(image).values[0], 255.f);
  EXPECT_EQ(processor("CLIPImageProcessor", fields + R"(, "do_convert_rgb": false)")(image).values[0], 7.f);
  EXPECT_EQ(processor("ViTImageProcessor", fields)(image).values[0], 7.f);
  EXPECT_EQ(processor("ViTImageProcessor", fields + R"(, "do_convert_rgb": true)")(image).values[0], 255.f);
}

TEST(ImageProcessor, ConvNextCropsBelow384AndWarpsFromThere) {
  // 12 / 0.75 = 16: a picture of that size is not resized, and its middle is taken.
  Image image(16, 16);
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x) image.row(y)[3 * x] = static_cast<uint8_t>(10 * x + y);
  const std::string fields =
      R"("crop_pct": 0.75, "do_rescale": false, "do_normalize": false, "size": {"shortest_edge": )";
  const auto cropped = processor("ConvNextImageProcessor", fields + "12}")(image);
  EXPECT_EQ(cropped.height, 12);
  EXPECT_EQ(cropped.values[0], 22.f);
  const auto warped = processor("ConvNextImageProcessor", fields + "384}")(image);
  EXPECT_EQ(warped.height, 384);
  EXPECT_EQ(warped.values[0], 0.f);
}

// Both edges are scaled, so that nothing of a wide picture is lost; else its ends are cut off.
TEST(ImageProcessor, TimmSquashesWhatItElseCrops) {
  Image image(8, 2);  // black, its left end white
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{0});
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t k = 0; k < 6; ++k) image.pixels[static_cast<size_t>(row * 24 + k)] = 255;
  const auto first = [&](const std::string& mode) {
    return processor("TimmWrapperImageProcessor", R"("pretrained_cfg": {"input_size": [3, 4, 4], "crop_pct": 1,
        "interpolation": "nearest", "mean": [0, 0, 0], "std": [1, 1, 1], "crop_mode": ")" +
                                                      mode + "\"}")(image)
        .values[0];
  };
  EXPECT_EQ(first("squash"), 1.f);
  EXPECT_EQ(first("center"), 0.f);
  EXPECT_THROW(first("border"), Error);
}

// What a file asks for ends in a line before anything of that size is made.
// Numbers of Transformers 5.24's DPTImageProcessor.
TEST(ImageProcessor, OfDptFramesWithZerosToMultiples) {
  const std::string fields = R"("do_resize": false, "do_normalize": false, "do_pad": true)";
  const auto framed = processor("DPTImageProcessor", fields + R"(, "size_divisor": 7)")(plain(255));
  EXPECT_EQ(framed.height, 7);
  EXPECT_EQ(framed.width, 7);
  ASSERT_EQ(framed.values.size(), 3u * 49);
  for (size_t i = 0; i < framed.values.size(); ++i) {
    const size_t y = i % 49 / 7, x = i % 7;
    EXPECT_EQ(framed.values[i], y >= 1 && y < 5 && x >= 1 && x < 5 ? 1.0f : 0.0f) << i;
  }
  EXPECT_EQ(processor("DPTImageProcessor", fields + R"(, "size_divisor": 2)")(plain(255)).height, 4);
  for (const char* divisor : {"", R"(, "size_divisor": null)", R"(, "size_divisor": 0)", R"(, "size_divisor": -3)"})
    EXPECT_THROW(processor("DPTImageProcessor", fields + divisor), Error) << divisor;
}

// Which extents and places, by Transformers 5.24 with Pillow: of an odd frame the first side has one more.
// Nothing is rounded to bytes between.
TEST(ImageProcessor, OfDinov3ResizesFractions) {
  Image image(2, 1);
  std::fill_n(image.row(0) + 3, 3, uint8_t{51});
  const std::string fields = R"("size": {"height": 1, "width": 4}, "do_normalize": false)";
  const auto values = processor("DINOv3ViTImageProcessor", fields)(image).values;
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(values[i], std::vector<double>({0, 0.05, 0.15, 0.2})[i % 4], 1e-7);
  const auto refused = [&](const std::string& more) {
    return test::message_of([&] { processor("DINOv3ViTImageProcessor", fields + more); });
  };
  EXPECT_NE(refused(R"(, "resample": 1)").find("resample: expected 2 or 3"), std::string::npos);
  EXPECT_NE(refused(R"(, "do_rescale": false)").find("expected do_rescale"), std::string::npos);
}

TEST(ImageProcessor, CropsOfSmallerPicturesHaveAFrame) {
  const std::string fields = R"("do_resize": false, "do_normalize": false, "do_center_crop": true)";
  const std::string size = R"(, "crop_size": {"height": 7, "width": 7})";
  for (const char* type : {"CLIP", "Bit", "DeiT", "ViT", "Siglip", "Blip", "EfficientNet", "OwlViT"}) {
    const auto cropped = processor(std::string(type) + "ImageProcessor", fields + size)(plain(255));
    ASSERT_EQ(cropped.values.size(), 3u * 49) << type;
    for (size_t i = 0; i < cropped.values.size(); ++i) {
      const size_t y = i % 49 / 7, x = i % 7;
      EXPECT_EQ(cropped.values[i] != 0, y >= 2 && y < 6 && x >= 2 && x < 6) << type << " " << i;
    }
  }
  for (const char* type : {"Segformer", "Detr", "RTDetr", "Yolos"})  // which do not crop
    EXPECT_EQ(processor(std::string(type) + "ImageProcessor", fields + size + R"(, "do_pad": false)")(plain(255)).width,
              4)
        << type;
  for (const char* type : {"ViT", "Siglip", "Blip", "DPT"})
    EXPECT_THROW(processor(std::string(type) + "ImageProcessor", fields), Error) << type;
}

TEST(ImageProcessor, OfDetectorsRefusesExtentsThatAreNone) {
  const auto message = [](const std::string& fields) {
    return test::message_of([&] { processor("DetrImageProcessor", fields)(plain(9)); });
  };
  EXPECT_NE(message(R"("size": {"shortest_edge": 1048576, "longest_edge": 1048576})").find("at most 178956970 in all"),
            std::string::npos);
  EXPECT_NE(message(R"("size": {"shortest_edge": 9})").find("expected shortest_edge and longest_edge"),
            std::string::npos);
  EXPECT_NE(message(R"("size": {"shortest_edge": -5, "longest_edge": 9})").find("found -5"), std::string::npos);
  EXPECT_NE(message(R"("size": {"height": 8, "width": 8}, "pad_size": {"height": 4, "width": 9})")
                .find("does not hold a picture that becomes 8 x 8"),
            std::string::npos);
  EXPECT_NE(message(R"("pad_size": {"height": 1000000, "width": 1000000})").find("at most 178956970 in all"),
            std::string::npos);
}

// Files of before 2023: one number, and a limit beside it.
TEST(ImageProcessor, OfDetectorsReadsOlderSizes) {
  const Image image(40, 10);
  const auto extents = [&](const std::string& fields) {
    const ImageProcessor::Pixels pixels = processor("DetrFeatureExtractor", fields)(image);
    return std::array{pixels.height, pixels.width};
  };
  EXPECT_EQ(extents(R"("size": 20, "max_size": 60)"), (std::array<int64_t, 2>{15, 60}));
  EXPECT_EQ(extents(R"("size": 20)"), (std::array<int64_t, 2>{20, 80}));
  EXPECT_EQ(extents(R"("size": {"height": 6, "width": 7})"), (std::array<int64_t, 2>{6, 7}));
  EXPECT_TRUE(processor("DetrImageProcessor", R"("size": 20, "do_pad": false)")(image).mask.empty());
}

}  // namespace
}  // namespace transom
