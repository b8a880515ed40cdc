// SPDX-License-Identifier: Apache-2.0
// Super-resolution by graphs that repeat each pixel: of any size, and of a fixed one, for which pictures are cut.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "models/onnx/model_writer.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::Message;

std::string repeats_pixels(int64_t side, float factor) {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("x", ElementType::kFloat32, {1, 3, side, side})};
  parts.initializers = {onnx::test::tensor<float>("scales", ElementType::kFloat32, {4}, {1, 1, factor, factor})};
  parts.nodes = {onnx::test::node("Resize", {"x", "", "scales"}, {"y"},
                                  {onnx::test::text("mode", "nearest"), onnx::test::text("nearest_mode", "floor"),
                                   onnx::test::text("coordinate_transformation_mode", "asymmetric")})};
  parts.outputs = {Message().text(1, "y")};
  return onnx::test::model(parts, 17);
}

class ImageToImageTest : public testing::Test {
 protected:
  Picture enlarged(const std::string& graph, const std::string& config = "{}") {
    write_file(folder_ / "model.onnx", graph);
    write_file(folder_ / "config.json", config);
    write_file(folder_ / "a.bmp", test::bitmap(44, [](size_t i) {
                 return std::array<uint8_t, 3>{static_cast<uint8_t>(i), static_cast<uint8_t>(i / 7), 200};
               }));
    const auto pipeline = make_pipeline("image-to-image", folder_.string());
    return std::get<std::vector<Picture>>(run_pipeline(*pipeline, {ImageInput((folder_ / "a.bmp").string())}, {}).at(0))
        .at(0);
  }
  void expect_repeated(const Picture& picture) {
    ASSERT_EQ(picture.width, 88);
    ASSERT_EQ(picture.height, 88);
    const Image source = read_image(folder_ / "a.bmp");
    const auto& values = std::get<std::vector<uint8_t>>(picture.values);
    for (int64_t y = 0; y < 88; ++y)
      for (int64_t x = 0; x < 88; ++x)
        for (int64_t c = 0; c < 3; ++c)
          ASSERT_EQ(values[static_cast<size_t>(3 * (88 * y + x) + c)], source.row(y / 2)[3 * (x / 2) + c])
              << x << ", " << y;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ImageToImageTest, OfAnySizeAtOnce) { expect_repeated(enlarged(repeats_pixels(-1, 2))); }
TEST_F(ImageToImageTest, OfAFixedSizeInTiles) { expect_repeated(enlarged(repeats_pixels(32, 2))); }
TEST_F(ImageToImageTest, NumbersMayReachTo255) {
  expect_repeated(enlarged(repeats_pixels(-1, 2), R"({"model_type": "rcan"})"));
}

TEST_F(ImageToImageTest, RefusesGraphsThatMakeNoLargerPicture) {
  EXPECT_NE(test::message_of([&] { enlarged(repeats_pixels(-1, 0.5f)); }).find("with a factor f"), std::string::npos);
  EXPECT_NE(test::message_of([&] { enlarged(repeats_pixels(12, 2)); }).find("too small"), std::string::npos);
}

}  // namespace
}  // namespace transom
