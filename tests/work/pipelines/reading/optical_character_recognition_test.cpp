// SPDX-License-Identifier: Apache-2.0
// Reading by graphs of PaddleOCR's shapes: what is dark is a line, and every line says "ab".
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "models/onnx/model_writer.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::Message;

// x [1, 3, H, W] from -1 to 1 -> [1, 1, H, W], 1 where it is black.
std::string finds_what_is_dark() {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("x", ElementType::kFloat32, {-1, 3, -1, -1})};
  parts.initializers = {onnx::test::tensor<float>("half", ElementType::kFloat32, {1}, {0.5f})};
  parts.nodes = {onnx::test::node("ReduceMean", {"x"}, {"mean"}, {onnx::test::integers("axes", {1})}),
                 onnx::test::node("Mul", {"mean", "half"}, {"small"}),
                 onnx::test::node("Sub", {"half", "small"}, {"map"})};
  parts.outputs = {Message().text(1, "map")};
  return onnx::test::model(parts, 17);
}

// x [n, 3, 48, W] -> the same rows for each, and what the file says of its characters.
std::string reads(const std::vector<int64_t>& shape, const std::vector<float>& rows, const std::string& characters) {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("x", ElementType::kFloat32, {-1, 3, 48, -1})};
  parts.initializers = {onnx::test::tensor<float>("zero", ElementType::kFloat32, {1}, {0}),
                        onnx::test::tensor("rows", ElementType::kFloat32, shape, rows)};
  const bool two_axes = shape.size() == 2;
  parts.nodes = {
      onnx::test::node("ReduceMean", {"x"}, {"mean"},
                       {onnx::test::integers("axes", {2, 3}), onnx::test::integer("keepdims", 0)}),
      onnx::test::node("ReduceMean", {"mean"}, {"one"},
                       {onnx::test::integers("axes", {1}), onnx::test::integer("keepdims", 1)}),
      onnx::test::node(two_axes ? "Identity" : "Unsqueeze",
                       two_axes ? std::vector<std::string>{"one"} : std::vector<std::string>{"one", "last"}, {"place"}),
      onnx::test::node("Mul", {"place", "zero"}, {"nothing"}), onnx::test::node("Add", {"rows", "nothing"}, {"y"})};
  if (!two_axes) parts.initializers.push_back(onnx::test::tensor<int64_t>("last", ElementType::kInt64, {1}, {2}));
  parts.outputs = {Message().text(1, "y")};
  return onnx::test::model(parts, 17) +
         Message().message(14, Message().text(1, "character").text(2, characters)).bytes();
}

class ReadingTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "x_det.onnx", finds_what_is_dark());
    write_file(folder_ / "x_rec.onnx", reads({1, 4, 4}, kRows, "a\nb"));
    write_file(folder_ / "a.bmp", test::bitmap(256, [](size_t i) {
                 const size_t x = i % 256, y = i / 256;  // rows of the format go from the bottom up
                 const bool dark = x >= 40 && x < 200 && ((y >= 50 && y < 74) || (y >= 150 && y < 174));
                 const uint8_t level = dark ? 0 : 255;
                 return std::array<uint8_t, 3>{level, level, level};
               }));
  }
  std::vector<DetectedObject> lines(const TaskOptions& options = {}) {
    const auto pipeline = make_pipeline("ocr", folder_.string());
    return std::get<std::vector<DetectedObject>>(
        run_pipeline(*pipeline, {ImageInput((folder_ / "a.bmp").string())}, options).at(0));
  }
  // blank, a, b, space: "a", again "a", "b", blank
  const std::vector<float> kRows{0, 0.9f, 0.1f, 0, 0, 0.8f, 0.2f, 0, 0, 0.1f, 0.7f, 0, 1, 0, 0, 0};
  test::TemporaryFolder folder_;
};

TEST_F(ReadingTest, LinesAreReadFromTheTop) {
  const std::vector<DetectedObject> found = lines();
  ASSERT_EQ(found.size(), 2u);
  for (const DetectedObject& line : found) {
    EXPECT_EQ(line.label, "ab");
    EXPECT_NEAR(line.score, 0.8, 1e-5);
  }
  EXPECT_LT(found[0].box.ymax, found[1].box.ymin);
  // 160 x 24 pixels, and area / length * 1.6 around them.
  const double grown = 160.0 * 24 / (2 * (160 + 24)) * 1.6;
  EXPECT_NEAR(static_cast<double>(found[0].box.xmin), 40 - grown, 3);
  EXPECT_NEAR(static_cast<double>(found[0].box.xmax), 200 + grown, 3);
  EXPECT_NEAR(static_cast<double>(found[0].box.ymax - found[0].box.ymin), 24 + 2 * grown, 4);
}

TEST_F(ReadingTest, LinesBelowTheScoreAreLeftOut) {
  EXPECT_TRUE(lines({{"text_score", 0.9}}).empty());
  EXPECT_TRUE(lines({{"box_thresh", 1.0}}).empty());
}

TEST_F(ReadingTest, GraphsOfAnglesTurnLines) {
  write_file(folder_ / "x_cls.onnx", reads({1, 2}, {0.02f, 0.98f}, ""));
  EXPECT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines({{"use_cls", false}}).size(), 2u);
}

TEST_F(ReadingTest, GraphsThatDoNotFitAreRefused) {
  write_file(folder_ / "x_rec.onnx", reads({1, 4, 4}, kRows, "a\nb\nc"));
  EXPECT_NE(test::message_of([&] { lines(); }).find("of the characters that it names"), std::string::npos);
  write_file(folder_ / "y_rec.onnx", "");
  EXPECT_NE(test::message_of([&] { lines(); }).find("expected one graph with 'rec'"), std::string::npos);
}

}  // namespace
}  // namespace transom
