// SPDX-License-Identifier: Apache-2.0
// Every golden case of an image processor against Transformers' PIL version.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json/json.h"
#include "images/image_processor.h"
#include "io/safetensors.h"
#include "support/golden.h"

namespace transom {
namespace {

std::vector<std::string> cases() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder() / "image", none))
    if (std::filesystem::exists(entry.path() / "case.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenImage : public testing::TestWithParam<std::string> {};

TEST_P(GoldenImage, EqualsTransformers) {
  const auto folder = test::golden_folder() / "image" / GetParam();
  const ImageProcessor processor = ImageProcessor::from_pretrained(folder);
  for (const auto& [name, expected] : SafetensorsFile::open(folder / "expected.safetensors").tensors()) {
    const std::string file = name.substr(0, name.find('/'));
    const ImageProcessor::Pixels pixels = processor(read_image(folder.parent_path() / file));
    ASSERT_EQ(expected.shape, (std::vector<int64_t>{1, 3, pixels.height, pixels.width})) << name;
    const auto* values = reinterpret_cast<const float*>(expected.bytes.data());
    // Decoders of JPEG may differ by a step or two.
    const float step = 1 / 255.0f / 0.25f, tolerance = file.ends_with(".jpg") ? 2 * step : 1e-5f;
    for (size_t i = 0; i < pixels.values.size(); ++i)
      ASSERT_NEAR(pixels.values[i], values[i], tolerance) << name << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenImage, testing::ValuesIn(cases()), [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenImage);

}  // namespace
}  // namespace transom
