// SPDX-License-Identifier: Apache-2.0
// RT-DETR's encoder as no golden case has it.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/files.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

// The numbers are those of Transformers 5.24.
TEST(RTDetrEncoder, NormsWhatItsLayersReadWithNormalizeBefore) {
  const std::filesystem::path original = test::folder_of_case("rt-detr") / "model";
  const test::TemporaryFolder folder;
  std::string config = read_file(original / "config.json");
  const std::string field = "\"normalize_before\": false";
  ASSERT_NE(config.find(field), std::string::npos);
  folder.write("config.json", config.replace(config.find(field), field.size(), "\"normalize_before\": true"));
  std::filesystem::copy_file(original / "model.safetensors", folder / "model.safetensors");
  std::vector<float> picture;
  for (int i = 0; i < 3 * 32 * 40; ++i) picture.push_back(static_cast<float>(i % 7) / 3 - 1);
  const auto logits = Model::from_pretrained(folder.string())
                          ->forward({{"pixel_values", Tensor::from(picture, {1, 3, 32, 40})}})
                          .at("logits")
                          .to_vector<float>();
  const float expected[] = {0.775608f, 1.251826f, -0.664404f, -0.355965f, 1.587103f, 0.455645f, 1.262804f, -0.831585f};
  ASSERT_EQ(logits.size(), 15U);
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-4) << i;
}

}  // namespace
}  // namespace transom
