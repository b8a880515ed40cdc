// SPDX-License-Identifier: Apache-2.0
// Boxes of graphs of the YOLO kind: graphs that give the same boxes for every picture, so that all places are known.
#include <gtest/gtest.h>

#include <limits>

#include "base/files/files.h"
#include "models/onnx/model_writer.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/images/box_suppression.h"
#include "work/pipelines/images/graph_detection.h"
#include "work/pipelines/images/letterbox.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::Message;

// images [1, 3, 32, 32] -> boxes, which do not depend on them.
std::string fixed_boxes(const Shape& shape, const std::vector<float>& boxes) {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("images", ElementType::kFloat32, {1, 3, 32, 32})};
  parts.initializers = {onnx::test::tensor("boxes", ElementType::kFloat32, shape, boxes),
                        onnx::test::tensor<float>("zero", ElementType::kFloat32, {1}, {0})};
  parts.nodes = {onnx::test::node("ReduceMax", {"images"}, {"most"}, {onnx::test::integer("keepdims", 0)}),
                 onnx::test::node("Mul", {"most", "zero"}, {"nothing"}),
                 onnx::test::node("Add", {"boxes", "nothing"}, {"output0"})};
  parts.outputs = {Message().text(1, "output0")};
  return onnx::test::model(parts, 17);
}

class GraphDetectionTest : public testing::Test {
 protected:
  // A picture of 64 x 64, twice the frame.
  std::vector<DetectedObject> objects(const std::string& config, const std::string& graph,
                                      const TaskOptions& options = {}) {
    write_file(folder_ / "model.onnx", graph);
    write_file(folder_ / "config.json", config);
    write_file(folder_ / "a.bmp", test::bitmap(64, [](size_t) { return std::array<uint8_t, 3>{10, 20, 30}; }));
    const auto pipeline = make_pipeline("object-detection", folder_.string());
    const std::vector<TaskResult> results =
        run_pipeline(*pipeline, {ImageInput((folder_ / "a.bmp").string())}, options);
    return std::get<std::vector<DetectedObject>>(results.at(0));
  }
  test::TemporaryFolder folder_;
};

constexpr const char* kV8 = R"({"model_type": "yolov8", "id2label": {"0": "cat", "1": "dog"}})";
// Four boxes: a cat, the same cat a little aside, a dog at the cat's place, and one that is not sure.
const std::vector<float> kColumns{8,    8.5f, 8,    20,   8,     8,    8,    20,  8, 8, 8, 4, 8, 8, 8, 4,  // x, y, w, h
                                  0.9f, 0.8f, 0.1f, 0.2f, 0.05f, 0.1f, 0.7f, 0.3f};                        // cat, dog

TEST_F(GraphDetectionTest, EachObjectOfAClassIsToldOnce) {
  const std::vector<DetectedObject> found = objects(kV8, fixed_boxes({1, 6, 4}, kColumns));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].label, "cat");
  EXPECT_NEAR(found[0].score, 0.9, 1e-6);
  EXPECT_EQ(found[0].box.xmin, 8);
  EXPECT_EQ(found[0].box.ymax, 24);
  EXPECT_EQ(found[1].label, "dog");
  EXPECT_EQ(objects(kV8, fixed_boxes({1, 6, 4}, kColumns), {{"class_agnostic", true}}).size(), 1u);
  EXPECT_EQ(objects(kV8, fixed_boxes({1, 6, 4}, kColumns), {{"nms_threshold", 0.99}}).size(), 3u);
  EXPECT_EQ(objects(kV8, fixed_boxes({1, 6, 4}, kColumns), {{"threshold", 0.25}}).size(), 3u);
}

TEST_F(GraphDetectionTest, RowsOfVersion5HaveTheChanceOfAnyObject) {
  const std::vector<DetectedObject> found =
      objects(R"({"model_type": "yolov5", "id2label": {"0": "cat"}})",
              fixed_boxes({1, 2, 6}, {16, 16, 8, 8, 0.9f, 0.9f, 16, 16, 8, 8, 0.5f, 0.9f}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].score, 0.81, 1e-6);
}

TEST_F(GraphDetectionTest, YoloxGivesPlacesInCells) {
  std::vector<float> rows(21 * 6, 0.0f);  // 16 + 4 + 1 cells
  const size_t place = 16 + 3;            // the last cell of the stride 16
  rows[6 * place] = 0.5f, rows[6 * place + 1] = 0.25f, rows[6 * place + 4] = rows[6 * place + 5] = 1;
  const std::vector<DetectedObject> found =
      objects(R"({"model_type": "yolox", "id2label": {"0": "cat"}})", fixed_boxes({1, 21, 6}, rows));
  ASSERT_EQ(found.size(), 1u);
  // Its middle is at 24, 20 of the frame, its extents 16: twice that in the picture.
  EXPECT_EQ(found[0].box.xmin, 32);
  EXPECT_EQ(found[0].box.ymin, 24);
  EXPECT_EQ(found[0].box.xmax, 64);
  EXPECT_EQ(found[0].box.ymax, 56);
}

TEST_F(GraphDetectionTest, HostileBoxesStayWithinThePicture) {
  const float big = 1e30f, nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<DetectedObject> found =
      objects(kV8, fixed_boxes({1, 6, 3}, {nan, 0, 5, 8, 0, 5, big, big, nan, big, -3, 2, 0.9f, 0.9f, nan, 0, 0, nan}));
  for (const DetectedObject& object : found) {
    EXPECT_TRUE(object.box.xmin >= 0 && object.box.xmax <= 64);
    EXPECT_TRUE(object.box.ymin >= 0 && object.box.ymax <= 64);
  }
}

TEST_F(GraphDetectionTest, RefusesAnotherNumberOfClasses) {
  const std::string message = test::message_of([&] { objects(kV8, fixed_boxes({1, 5, 1}, {8, 8, 8, 8, 0.9f})); });
  EXPECT_NE(message.find("expected 6 numbers a box for 2 classes, found 5"), std::string::npos) << message;
}

TEST(Labels, OfALiteralAreNames) {
  EXPECT_EQ(labels_of_literal("{0: 'a cat', 1: \"dog's\"}", "x"), (std::vector<std::string>{"a cat", "dog's"}));
  EXPECT_THROW(labels_of_literal("{1: 'a'}", "x"), Error);
  EXPECT_THROW(labels_of_literal("{0: 'a", "x"), Error);
  EXPECT_THROW(labels_of_literal("{0: ", "x"), Error);
}

TEST(Letterboxes, KeepProportions) {
  const Image picture(40, 20);
  const Letterbox centre = in_frame(picture, 32, 32, LetterboxFrame::kCentre),
                  corner = in_frame(picture, 32, 32, LetterboxFrame::kCorner);
  EXPECT_EQ(centre.top, 8);
  EXPECT_EQ(centre.image.row(7)[0], 114);
  EXPECT_EQ(centre.image.row(8)[0], 0);
  EXPECT_EQ(corner.top, 0);
  EXPECT_EQ(corner.image.row(16)[0], 114);
  EXPECT_DOUBLE_EQ(centre.y_in_picture(24), 20);
  const Letterbox square = in_frame(picture, 32, 32, LetterboxFrame::kBlackSquare);
  EXPECT_DOUBLE_EQ(square.x_in_picture(32), 40);
}

TEST(Suppression, KeepsTheMostCertain) {
  const std::vector<ScoredBox> boxes{{0, 0, 10, 10, 0.5f, 0},
                                     {0, 0, 10, 9, 0.9f, 0},
                                     {20, 0, 30, 10, 0.1f, 0},
                                     {5, 5, 5, 5, 0.3f, 0}};  // one without an area covers nothing
  const std::vector<ScoredBox> kept = without_overlaps(boxes, 0.5, false, 10);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_FLOAT_EQ(kept[0].score, 0.9f);
  EXPECT_EQ(without_overlaps(boxes, 0.5, false, 1).size(), 1u);
}

}  // namespace
}  // namespace transom
