// SPDX-License-Identifier: Apache-2.0
// Small files of every format, with the pixels that Pillow reads from them, and broken ones.
#include "inputs/images/image.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "inputs/images/image_extents.h"
#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kRgbPng =
    "89504e470d0a1a0a0000000d49484452000000040000000308020000003b9639910000003249444154789c012700d8ff008b4ae5f1a941"
    "06a0956a26af023183caf4b9b804f4caec6d170042276ad5ab2da7394551370e716f116251684ce00000000049454e44ae426082";
constexpr const char* kPalettePng =
    "89504e470d0a1a0a0000000d494844520000000400000003040300000046dab3f50000000f504c5445d6b65fe562f922989389389e4a2f"
    "3c5ceddcfc0000001149444154789c6334f8ccc8a8c862ff05000a44027f028f35940000000049454e44ae426082";
// The same with alpha for some colours, which is left out.
constexpr const char* kPaletteAlphaPng =
    "89504e470d0a1a0a0000000d494844520000000400000003040300000046dab3f50000000f504c5445d6b65fe562f922989389389e4a2f"
    "3c5ceddcfc0000000374524e53ff0080a95673130000001149444154789c6334f8ccc8a8c862ff05000a44027f028f3594000000004945"
    "4e44ae426082";
constexpr const char* kGrayAlphaPng =
    "89504e470d0a1a0a0000000d49484452000000040000000308040000001efd664d0000002449444154789c63c8efdefcb190cd2b8b29d4"
    "f0f9972f2cb66f988adbf83f7c9bbbf93700a7d00d897e7ed3a00000000049454e44ae426082";
constexpr const char* kBitPng =
    "89504e470d0a1a0a0000000d49484452000000040000000301000000009c8f936b0000000e49444154789c637060b8c0e0000003f60151"
    "84f10ff50000000049454e44ae426082";
constexpr const char* kGray16Png =
    "89504e470d0a1a0a0000000d49484452000000040000000210000000000a53fefc0000001a49444154789c636060606065f8cfc8c0c0a8"
    "f3ff3f0323031300188d0334e592ae740000000049454e44ae426082";
constexpr const char* kGif =
    "47494638376104000300820000d6b65fe562f930949306a09589389e4a2f3c0000000000002c000000000400030000080f000900182030"
    "c00001050010281010003b";
constexpr const char* kBmp =
    "424d5a0000000000000036000000280000000400000003000000010018000000000024000000c40e0000c40e000000000000000000006a"
    "27422dabd54539a70e3751afcdbcf962e55f940ac69356e54a8b41a9f195a006af266a";
constexpr const char* kPaletteBmp =
    "424d56000000000000004a00000028000000040000000300000001000800000000000c000000c40e0000c40e000005000000050000005f"
    "b6d600f962e500939822009e3889003c2f4a00040003040001020203000203";
constexpr const char* kWebp =
    "5249464670000000574542505650384c640000002f038000005fa034b2d568068fa4413cada028f2ca9df8b4a12892a4e69285f370ca79"
    "a3020168c8191c288a6d838a410541b49040d47f07eb57c06efe83f377073d88f5cd37258ba05f4f02d5030934325307820012804c0259"
    "619e19968fe87f2cf402";
constexpr const char* kTurnedPng =
    "89504e470d0a1a0a0000000d49484452000000040000000308020000003b9639910000001a655849664d4d002a00000008000101120003"
    "000000010006000000000000d6674b690000003249444154789c012700d8ff008b4ae5f1a94106a0956a26af023183caf4b9b804f4caec"
    "6d170042276ad5ab2da7394551370e716f116251684ce00000000049454e44ae426082";
constexpr const char* kTurnedJpeg =
    "ffd8ffe000104a46494600010100000100010000ffe100224578696600004d4d002a000000080001011200030000000100080000000000"
    "00ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c"
    "4e525352323e5a615a50604a51524fffc0000b080008001001011100ffc4001500010100000000000000000000000000000607ffc40014"
    "100100000000000000000000000000000000ffda0008010100003f0012b13fffd9";
constexpr const char* kCmykJpeg =
    "ffd8ffee000e41646f626500640000000000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e29"
    "2d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffc000140800010002044311004d11005911004b1100ff"
    "c4001500010100000000000000000000000000000607ffc40014100100000000000000000000000000000000ffda000e0443004d005900"
    "4b00003f00a409149e3fffd9";

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

struct Case {
  const char *name, *file;
  int64_t width, height;
  std::vector<int> pixels;
};
const std::vector<Case>& image_cases() {
  static const std::vector<Case> all = {
      {"RgbPng", kRgbPng, 4, 3, {139, 74,  229, 241, 169, 65,  6,   160, 149, 106, 38,  175,
                                 188, 205, 175, 229, 98,  249, 10,  148, 95,  86,  147, 198,
                                 66,  39,  106, 213, 171, 45,  167, 57,  69,  81,  55,  14}},
      {"PalettePng", kPalettePng, 4, 3, {137, 56,  158, 214, 182, 95,  34,  152, 147, 137, 56,  158,
                                         214, 182, 95,  229, 98,  249, 34,  152, 147, 34,  152, 147,
                                         74,  47,  60,  214, 182, 95,  137, 56,  158, 74,  47,  60}},
      {"PaletteAlphaPng", kPaletteAlphaPng, 4, 3, {137, 56,  158, 214, 182, 95,  34,  152, 147, 137, 56,  158,
                                                   214, 182, 95,  229, 98,  249, 34,  152, 147, 34,  152, 147,
                                                   74,  47,  60,  214, 182, 95,  137, 56,  158, 74,  47,  60}},
      {"GrayAlphaPng", kGrayAlphaPng, 4, 3, {111, 111, 111, 179, 179, 179, 113, 113, 113, 74,  74,  74,
                                             196, 196, 196, 154, 154, 154, 101, 101, 101, 135, 135, 135,
                                             55,  55,  55,  169, 169, 169, 91,  91,  91,  58,  58,  58}},
      {"BitPng", kBitPng, 4, 3, {0, 0, 0, 255, 255, 255, 0, 0, 0, 0,   0,   0,   255, 255, 255, 255, 255, 255,
                                 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255, 0,   0,   0,   0,   0,   0}},
      {"Gray16Png", kGray16Png, 4, 2, {0,   0,   0,   5,   5,   5,   255, 255, 255, 255, 255, 255,
                                       255, 255, 255, 255, 255, 255, 1,   1,   1,   2,   2,   2}},
      {"Gif", kGif, 4, 3, {137, 56,  158, 214, 182, 95,  6,  160, 149, 137, 56,  158, 214, 182, 95,  229, 98, 249,
                           6,   160, 149, 48,  148, 147, 74, 47,  60,  214, 182, 95,  137, 56,  158, 74,  47, 60}},
      {"Bmp", kBmp, 4, 3, {139, 74,  229, 241, 169, 65,  6,  160, 149, 106, 38,  175, 188, 205, 175, 229, 98, 249,
                           10,  148, 95,  86,  147, 198, 66, 39,  106, 213, 171, 45,  167, 57,  69,  81,  55, 14}},
      {"PaletteBmp", kPaletteBmp, 4, 3, {137, 56,  158, 214, 182, 95,  34,  152, 147, 137, 56,  158,
                                         214, 182, 95,  229, 98,  249, 34,  152, 147, 34,  152, 147,
                                         74,  47,  60,  214, 182, 95,  137, 56,  158, 74,  47,  60}},
      {"Webp", kWebp, 4, 3, {139, 74,  229, 241, 169, 65,  6,  160, 149, 106, 38,  175, 188, 205, 175, 229, 98, 249,
                             10,  148, 95,  86,  147, 198, 66, 39,  106, 213, 171, 45,  167, 57,  69,  81,  55, 14}},
      {"TurnedPng", kTurnedPng, 3, 4, {66,  39,  106, 188, 205, 175, 139, 74,  229, 213, 171, 45,
                                       229, 98,  249, 241, 169, 65,  167, 57,  69,  10,  148, 95,
                                       6,   160, 149, 81,  55,  14,  86,  147, 198, 106, 38,  175}},
      {"TurnedJpeg",
       kTurnedJpeg,
       8,
       16,
       {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200,
        200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,  40,
        40,  40,  40,  40,  40,  40,  40,  40,  40,  40}},
      {"CmykJpeg", kCmykJpeg, 2, 1, {217, 49, 173, 217, 49, 173}},
  };
  return all;
}

TEST(Image, FilesHoldWhatPillowReads) {
  for (const Case& c : image_cases()) {
    const Image image = decode_image(bytes_of(c.file), c.name);
    EXPECT_EQ(image.width, c.width) << c.name;
    EXPECT_EQ(image.height, c.height) << c.name;
    EXPECT_EQ(std::vector<int>(image.pixels.begin(), image.pixels.end()), c.pixels) << c.name;
  }
}

// By the header alone, however EXIF turns the picture; cut off anywhere it says less, and reads nothing behind the end.
TEST(Image, HeadersSayTheExtents) {
  for (const Case& c : image_cases()) {
    const std::vector<std::byte> bytes = bytes_of(c.file);
    const auto extents = image_extents(bytes);
    ASSERT_TRUE(extents) << c.name;
    const bool turned = c.name == std::string_view("TurnedPng") || c.name == std::string_view("TurnedJpeg");
    EXPECT_EQ(*extents, (turned ? std::array{c.height, c.width} : std::array{c.width, c.height})) << c.name;
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const auto known = image_extents(part);
      EXPECT_TRUE(!known || *known == *extents) << c.name << " " << size;
    }
  }
  EXPECT_FALSE(image_extents(bytes_of("ffd8ffe00000ffe00000ffe00000")));
  EXPECT_FALSE(image_extents({}));
}

// What Transformers' convert_to_rgb gives for the same files behind Pillow's convert("RGB").
TEST(Image, TheTransparentColourBecomesWhiteWhereColoursAreConverted) {
  struct Transparent {
    const char *name, *file;
    std::vector<uint8_t> pixels, on_white;
  };
  const Transparent all[] = {
      {"a palette with one transparent entry, whose colour another has too",
       "89504e470d0a1a0a0000000d49484452000000030000000108030000002c3ee48600000009504c54450a141e28323c0a141e8a88ff5800"
       "00000374524e53ffff00d7ca0d410000000c49444154789c6360606402000008000436e0b0a60000000049454e44ae426082",
       {10, 20, 30, 40, 50, 60, 10, 20, 30},
       {255, 255, 255, 40, 50, 60, 255, 255, 255}},
      {"a palette with an entry in between",
       "89504e470d0a1a0a0000000d49484452000000030000000108030000002c3ee48600000009504c54450a141e28323c46505a16ac847400"
       "00000374524e53ff80007f6d68780000000c49444154789c6360606402000008000436e0b0a60000000049454e44ae426082",
       {10, 20, 30, 40, 50, 60, 70, 80, 90},
       {10, 20, 30, 40, 50, 60, 70, 80, 90}},
      {"gray",
       "89504e470d0a1a0a0000000d49484452000000030000000108000000003e8b4b680000000274524e5300069ff0680d0000000c49444154"
       "789c636065630700002600135a6affd20000000049454e44ae426082",
       {5, 5, 5, 6, 6, 6, 7, 7, 7},
       {5, 5, 5, 255, 255, 255, 7, 7, 7}},
      {"gray of 2 bits, whose transparent value Pillow does not expand",
       "89504e470d0a1a0a0000000d4948445200000003000000010200000000743b53c90000000274524e5300010194fdae0000000a49444154"
       "789c63900600001d001c8ef4f5210000000049454e44ae426082",
       {0, 0, 0, 85, 85, 85, 170, 170, 170},
       {0, 0, 0, 85, 85, 85, 170, 170, 170}},
      {"colours",
       "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd0000000674524e53000400050006748ec68f0000000f"
       "49444154789c636064626661650300003f001621bad4540000000049454e44ae426082",
       {1, 2, 3, 4, 5, 6},
       {1, 2, 3, 255, 255, 255}},
      {"a GIF",
       "4749463839610300010081000001020304050607080900000021f90401000001002c0000000003000100000806000104101010003b",
       {1, 2, 3, 4, 5, 6, 7, 8, 9},
       {1, 2, 3, 255, 255, 255, 7, 8, 9}}};
  for (const Transparent& c : all) {
    const Image image = decode_image(bytes_of(c.file), c.name);
    EXPECT_EQ(image.pixels, c.pixels) << c.name;
    EXPECT_EQ(on_white(image).pixels, c.on_white) << c.name;
  }
}

// Whatever is cut off or changed, there is an Error or a picture, no crash.
TEST(Image, BrokenFilesEndInAnError) {
  std::mt19937 random(3);
  for (const Case& c : image_cases()) {
    const std::vector<std::byte> whole = bytes_of(c.file);
    for (size_t size = 0; size < whole.size() / 2; ++size)
      EXPECT_THROW(decode_image(std::span(whole).first(size), c.name), Error) << c.name << " of " << size << " bytes";
    for (int attempt = 0; attempt < 300; ++attempt) {
      std::vector<std::byte> changed = whole;
      for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<std::byte>(random());
      try {
        decode_image(changed, c.name);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Image, TooManyPixelsAreRefusedBeforeTheyAreRead) {
  std::vector<std::byte> bytes = bytes_of(kBmp);
  bytes[18 + 3] = bytes[22 + 3] = std::byte{0x40};  // 2^30 by 2^30
  EXPECT_NE(test::message_of([&] { decode_image(bytes, "huge.bmp"); }).find("pixels"), std::string::npos);
  EXPECT_THROW(Image(int64_t{1} << 40, int64_t{1} << 40), Error);
  EXPECT_THROW(Image(0, 3), Error);
}

TEST(Image, OtherFilesAreRefused) {
  EXPECT_NE(test::message_of([] { decode_image(bytes_of("3c68746d6c3e"), "page.html"); }).find("page.html"),
            std::string::npos);
  EXPECT_THROW(read_image("there/is/no/such.png"), Error);
  EXPECT_EQ(test::message_of([] { read_image("https://a.b/c.png"); }),
            "https://a.b/c.png: pictures are read from files, and nothing is fetched; download it first");
}

TEST(Image, AFileOfAnotherFormatIsNamed) {
  const std::pair<std::string_view, std::string_view> cases[] = {{"49492a0008000000", "TIFF"},
                                                                 {"0000001c667479706176696600000000", "AVIF"},
                                                                 {"0000000c6a5020200d0a870a", "JPEG 2000"},
                                                                 {"000001000100", "ICO"},
                                                                 {"50360a36342034380a", "PPM, PGM or PBM"},
                                                                 {"3c737667207769647468", "SVG"},
                                                                 {"000000", "none"}};
  for (const auto& [bytes, kind] : cases)
    EXPECT_EQ(test::message_of([&, file = bytes] { decode_image(bytes_of(file), "a"); }),
              fmt::format("a: expected a PNG, JPEG, WebP, GIF or BMP image; its first bytes are those of {}", kind));
  EXPECT_EQ(test::message_of([] { decode_image({}, "a"); }),
            "a: expected a PNG, JPEG, WebP, GIF or BMP image; it is empty");
}

// Image.resize of Pillow.
TEST(Resize, EqualsPillow) {
  Image image(7, 5);
  const std::vector<int> source = {
      153, 178, 215, 76,  52,  39,  250, 72,  215, 50,  161, 223, 112, 172, 161, 233, 38,  17,  89,  1,   221,
      6,   242, 127, 143, 6,   60,  210, 94,  25,  166, 33,  249, 189, 12,  204, 33,  57,  124, 30,  199, 149,
      202, 119, 72,  220, 3,   209, 122, 136, 147, 77,  133, 82,  115, 87,  162, 230, 70,  71,  240, 62,  47,
      184, 31,  34,  63,  65,  146, 197, 142, 253, 81,  133, 240, 113, 30,  247, 103, 122, 31,  19,  42,  129,
      141, 136, 33,  149, 161, 0,   178, 141, 107, 35,  107, 130, 72,  27,  217, 254, 99,  13,  195, 206, 59};
  std::copy(source.begin(), source.end(), image.pixels.begin());
  struct Expected {
    Resampling resampling;
    int64_t width, height;
    std::vector<int> pixels;
  };
  const std::vector<Expected> all = {
      {Resampling::kNearest, 3, 2, {143, 6, 60, 166, 33, 249, 33, 57, 124, 63, 65, 146, 81, 133, 240, 103, 122, 31}},
      {Resampling::kNearest, 9, 4, {153, 178, 215, 76,  52,  39,  76,  52,  39,  250, 72,  215, 50,  161, 223, 112,
                                    172, 161, 233, 38,  17,  233, 38,  17,  89,  1,   221, 6,   242, 127, 143, 6,
                                    60,  143, 6,   60,  210, 94,  25,  166, 33,  249, 189, 12,  204, 33,  57,  124,
                                    33,  57,  124, 30,  199, 149, 184, 31,  34,  63,  65,  146, 63,  65,  146, 197,
                                    142, 253, 81,  133, 240, 113, 30,  247, 103, 122, 31,  103, 122, 31,  19,  42,
                                    129, 141, 136, 33,  149, 161, 0,   149, 161, 0,   178, 141, 107, 35,  107, 130,
                                    72,  27,  217, 254, 99,  13,  254, 99,  13,  195, 206, 59}},
      {Resampling::kLanczos,
       3,
       2,
       {138, 97, 119, 151, 85, 167, 120, 74, 127, 158, 103, 90, 108, 100, 183, 144, 89, 87}},
      {Resampling::kLanczos, 9, 4, {113, 209, 216, 65,  98,  77,  170, 29,  57,  236, 89,  206, 80,  128, 246, 106,
                                    145, 209, 184, 81,  65,  135, 35,  91,  45,  52,  232, 66,  225, 102, 153, 61,
                                    128, 202, 23,  80,  153, 121, 62,  137, 64,  169, 164, 40,  192, 136, 31,  144,
                                    113, 98,  100, 134, 168, 97,  221, 49,  35,  150, 28,  134, 138, 81,  242, 149,
                                    160, 219, 72,  146, 168, 89,  70,  217, 153, 88,  115, 153, 83,  40,  112, 18,
                                    99,  146, 110, 34,  114, 135, 11,  162, 152, 70,  170, 139, 154, 46,  109, 169,
                                    53,  29,  243, 170, 51,  106, 196, 144, 13,  130, 179, 91}},
      {Resampling::kBilinear,
       3,
       2,
       {139, 96, 115, 141, 88, 165, 127, 76, 124, 152, 97, 101, 112, 102, 170, 143, 90, 95}},
      {Resampling::kBilinear, 9, 4, {116, 194, 193, 101, 92,  94,  158, 57,  99,  204, 89,  182, 79,  129, 230, 119,
                                     131, 185, 160, 83,  101, 147, 46,  97,  74,  51,  203, 88,  191, 104, 146, 67,
                                     116, 174, 53,  102, 163, 104, 99,  129, 75,  179, 152, 50,  184, 134, 54,  139,
                                     116, 89,  103, 118, 142, 106, 192, 68,  50,  149, 49,  131, 145, 83,  188, 147,
                                     138, 201, 79,  133, 174, 106, 72,  204, 137, 80,  121, 141, 83,  64,  111, 50,
                                     95,  152, 110, 33,  136, 128, 36,  152, 139, 85,  153, 135, 147, 47,  114, 158,
                                     74,  47,  210, 156, 71,  110, 194, 125, 38,  151, 165, 77}},
      {Resampling::kBicubic, 3, 2, {138, 98, 116, 147, 87, 167, 124, 74, 125, 156, 99, 93, 109, 102, 180, 145, 90, 89}},
      {Resampling::kBicubic, 9, 4, {116, 203, 209, 83,  90,  78,  162, 43,  80,  227, 86,  195, 77,  132, 237, 114,
                                    145, 193, 172, 83,  81,  151, 35,  86,  61,  45,  221, 73,  212, 104, 151, 57,
                                    121, 187, 36,  90,  162, 112, 76,  135, 68,  176, 161, 42,  190, 134, 43,  142,
                                    110, 92,  101, 123, 158, 102, 208, 56,  39,  148, 36,  137, 141, 82,  213, 150,
                                    150, 217, 76,  140, 173, 100, 68,  216, 144, 83,  116, 147, 85,  48,  109, 34,
                                    96,  149, 110, 31,  128, 135, 18,  157, 148, 72,  164, 138, 150, 44,  112, 159,
                                    62,  34,  230, 166, 62,  105, 207, 134, 19,  147, 177, 79}},
      {Resampling::kBox, 3, 2, {134, 100, 121, 143, 100, 163, 143, 71, 105, 135, 99, 54, 113, 97, 199, 143, 118, 58}},
      {Resampling::kBox, 9, 4, {153, 178, 215, 76,  52,  39,  76,  52,  39,  250, 72,  215, 50,  161, 223, 112,
                                172, 161, 233, 38,  17,  233, 38,  17,  89,  1,   221, 104, 181, 100, 182, 5,
                                135, 182, 5,   135, 166, 115, 86,  122, 83,  166, 152, 50,  183, 132, 64,  98,
                                132, 64,  98,  135, 131, 98,  184, 31,  34,  63,  65,  146, 63,  65,  146, 197,
                                142, 253, 81,  133, 240, 113, 30,  247, 103, 122, 31,  103, 122, 31,  19,  42,
                                129, 141, 136, 33,  149, 161, 0,   149, 161, 0,   178, 141, 107, 35,  107, 130,
                                72,  27,  217, 254, 99,  13,  254, 99,  13,  195, 206, 59}},
      {Resampling::kHamming, 3, 2, {126, 98, 109, 143, 90, 178, 119, 77, 121, 147, 93, 91, 102, 107, 186, 144, 96, 79}},
      {Resampling::kHamming, 9, 4, {139, 184, 207, 92,  71,  69,  143, 58,  99,  236, 78,  199, 61,  149, 225, 116,
                                    157, 168, 179, 84,  78,  192, 37,  58,  83,  20,  214, 71,  201, 109, 152, 38,
                                    109, 173, 43,  93,  179, 106, 72,  137, 66,  194, 163, 39,  190, 123, 52,  137,
                                    98,  77,  108, 99,  154, 115, 190, 60,  47,  128, 47,  147, 136, 80,  186, 167,
                                    140, 216, 80,  133, 188, 112, 54,  217, 133, 84,  109, 136, 96,  54,  92,  49,
                                    102, 145, 126, 33,  142, 148, 17,  156, 148, 54,  172, 139, 122, 39,  109, 140,
                                    74,  32,  215, 179, 73,  91,  230, 116, 24,  179, 191, 66}},
  };
  for (const Expected& e : all) {
    const Image got = resize(image, e.width, e.height, e.resampling);
    EXPECT_EQ(std::vector<int>(got.pixels.begin(), got.pixels.end()), e.pixels)
        << static_cast<int>(e.resampling) << " to " << e.width << " x " << e.height;
  }
}

TEST(Crop, OutsideIsBlack) {
  Image image(2, 1);
  image.pixels = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(crop(image, 1, 0, 2, 2).pixels, (std::vector<uint8_t>{4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(crop(image, -1, 0, 2, 1).pixels, (std::vector<uint8_t>{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(flipped(image).pixels, (std::vector<uint8_t>{4, 5, 6, 1, 2, 3}));
}

}  // namespace
}  // namespace transom
