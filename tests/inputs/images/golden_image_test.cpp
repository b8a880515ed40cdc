// SPDX-License-Identifier: Apache-2.0
// Every golden case of an image processor against Transformers' PIL version.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/images/image_processor.h"
#include "support/golden.h"
#include "support/sampled_values.h"

namespace transom {
namespace {

class GoldenImage : public testing::TestWithParam<std::string> {};

TEST_P(GoldenImage, EqualsTransformers) {
  const auto folder = test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "image");
  const ImageProcessor processor = ImageProcessor::from_pretrained(folder);
  for (const auto& [stored, expected] : SafetensorsFile::open(folder / "expected.safetensors").tensors()) {
    const std::string name = stored.substr(0, stored.find(" [")), file = name.substr(0, name.find('/'));
    const ImageProcessor::Pixels pixels = processor(read_image(folder.parent_path() / file));
    if (name.ends_with("mask") && !pixels.grouped) {  // else one of parts, which stands beside
      EXPECT_EQ(name, file + "/" + pixels.mask_name());
      ASSERT_EQ(expected.shape, pixels.mask_shape()) << name;
      const auto* mask = reinterpret_cast<const int64_t*>(expected.bytes.data());
      EXPECT_EQ(pixels.mask, std::vector<int64_t>(mask, mask + expected.bytes.size() / sizeof(int64_t))) << name;
      continue;
    }
    for (const auto& [beside, numbers] : pixels.beside) {
      if (!name.ends_with("/" + beside)) continue;
      ASSERT_EQ(expected.shape, pixels.shape_beside(numbers)) << name;
      const auto* values = reinterpret_cast<const int64_t*>(expected.bytes.data());
      EXPECT_EQ(numbers, std::vector<int64_t>(values, values + numbers.size())) << name;
    }
    if (!name.ends_with("/pixel_values")) continue;
    const auto* values = reinterpret_cast<const float*>(expected.bytes.data());
    const test::KeptValues kept =
        test::kept_values(stored, expected.shape, {values, values + expected.bytes.size() / sizeof(float)});
    ASSERT_EQ(kept.shape, pixels.shape()) << name;
    // Decoders of JPEG may differ by a step or two.
    const double step = 1 / 255.0 / 0.25, tolerance = file.ends_with(".jpg") ? 2 * step : 1e-5;
    EXPECT_EQ(difference(kept, {pixels.values.begin(), pixels.values.end()}, tolerance, 0), "") << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenImage,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kLibraries, "image")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
