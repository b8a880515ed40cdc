// SPDX-License-Identifier: Apache-2.0
// From pictures with masks to what a segmenter of objects learns from, and how its masks are measured.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files/files.h"
#include "inputs/images/write_png.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "transom/media.h"
#include "transom/ops.h"
#include "work/train/metrics/box_metrics.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

double mask_metric(const Metrics& metrics, const std::string& name) {
  const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const auto& each) { return each.first == name; });
  return at == metrics.end() ? -100 : at->second;
}

class InstanceTraining : public testing::Test {
 protected:
  void SetUp() override {
    // The map: a square of class 2, object 1, at the left, and a single pixel of class 1, object 4.
    std::vector<uint8_t> map(3 * kWidth * kHeight, 0);
    const auto set = [&](size_t x, size_t y, uint8_t label, uint8_t number) {
      map[3 * (y * kWidth + x)] = label, map[3 * (y * kWidth + x) + 1] = number;
    };
    for (size_t y = 0; y < 16; ++y)
      for (size_t x = 0; x < 16; ++x) set(x, y, 2, 1);
    set(63, 31, 1, 4);
    write_png(folder_ / "map.png", {kWidth, kHeight, 3, map});
    for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<uint8_t>(i % 251);
    write_png(folder_ / "a.png", {kWidth, kHeight, 3, map});
    write_file(folder_ / "maps.jsonl", R"({"image": "a.png", "annotation": "map.png",
      "semantic_class_to_id": {"ground": 0, "cat": 1, "dog": 2}})");
    write_file(folder_ / "coco.json", R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.png"}],
      "categories": [{"id": 4, "name": "dog"}, {"id": 9, "name": "cat"}],
      "annotations": [{"image_id": 2, "category_id": 9, "segmentation": [[9, 9, 30, 9, 30, 30]]},
        {"image_id": 1, "category_id": 4, "segmentation": [[0, 0, 16, 0, 16, 16, 0, 16]]},
        {"image_id": 1, "category_id": 9, "segmentation": {"size": [32, 64], "counts": [1984, 64]}}]})");
    Model::from_config(
        R"({"model_type": "mask2former", "architectures": ["Mask2FormerForUniversalSegmentation"],
      "backbone_config": {"model_type": "resnet", "layer_type": "basic", "depths": [1, 1, 1, 1],
        "hidden_sizes": [4, 4, 6, 6], "embedding_size": 4, "out_features": ["stage1", "stage2", "stage3", "stage4"]},
      "feature_size": 32, "mask_feature_size": 6, "hidden_dim": 8, "encoder_layers": 1, "decoder_layers": 2,
      "encoder_feedforward_dim": 12, "dim_feedforward": 12, "num_attention_heads": 2, "num_queries": 3,
      "train_num_points": 16, "id2label": {"0": "cat", "1": "dog"}})")
        ->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "Mask2FormerImageProcessor", "ignore_index": 255, "reduce_labels": true})");
  }
  TrainArguments arguments(const std::string& rows) const {
    TrainArguments result;
    result.script.task = "instance-segmentation";
    result.script.model_name_or_path = (folder_ / "model").string();
    result.script.train_file = result.script.validation_file = (folder_ / rows).string();
    result.script.image_height = 32, result.script.image_width = 32;
    result.script.ignore_mismatched_sizes = true;  // where the maps have other classes
    result.training.output_dir = (folder_ / "out").string();
    result.training.do_train = result.training.do_eval = true;
    result.training.max_steps = 1;
    result.training.resolve();
    return result;
  }
  static float sum_of(const std::vector<float>& values, size_t from) {
    float sum = 0;
    for (size_t i = from; i < from + 32 * 32; ++i) sum += values[i];
    return sum;
  }
  static constexpr size_t kWidth = 64, kHeight = 32;
  test::TemporaryFolder folder_;
};

TEST_F(InstanceTraining, ListsOfObjectsAreMasksOfThePicturesSize) {
  const TaskSetup task = prepare_task(arguments("coco.json"));
  const Batch batch = task.validation->batch({0});
  EXPECT_EQ(batch.arrays.at("pixel_values").shape, (std::vector<int64_t>{1, 3, 32, 32}));
  EXPECT_EQ(batch.arrays.at("class_labels").values, (std::vector<float>{1, 0}));
  ASSERT_EQ(batch.arrays.at("mask_labels").shape, (std::vector<int64_t>{1, 2, 32, 32}));
  const std::vector<float>& masks = batch.arrays.at("mask_labels").values;
  EXPECT_EQ(sum_of(masks, 0), 8 * 16);    // the square is half as wide
  EXPECT_EQ(sum_of(masks, 32 * 32), 32);  // the two columns at the right are one
  EXPECT_EQ(masks[32 * 32 + 31], 1.0f);
}

TEST_F(InstanceTraining, MirrorsMasksWithTheirPictures) {
  const TaskSetup task = prepare_task(arguments("coco.json"));
  std::array<int, 2> seen{};
  for (uint64_t draw = 0; draw < 12; ++draw) {
    Batch batch = task.train->batch({0});
    task.train->augment(batch, draw);
    const std::vector<float>& masks = batch.arrays.at("mask_labels").values;
    EXPECT_EQ(masks[0] + masks[31], 1.0f);
    ++seen[masks[0] > 0 ? 0 : 1];
  }
  EXPECT_GT(seen[0], 0);
  EXPECT_GT(seen[1], 0);
}

// Each number is an object, that of the ground too; a pixel that resizing leaves out is none.
TEST_F(InstanceTraining, MapsNumberObjects) {
  const TaskSetup task = prepare_task(arguments("maps.jsonl"));
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"ground", "cat", "dog"}));
  const Batch batch = task.validation->batch({0});
  EXPECT_EQ(batch.arrays.at("class_labels").values[0], 0.0f);
  EXPECT_EQ(batch.arrays.at("class_labels").values[1], 2.0f);
  EXPECT_EQ(sum_of(batch.arrays.at("mask_labels").values, 32 * 32), 8 * 16);
}

TEST_F(InstanceTraining, ReducedLabelsLeaveTheGroundOut) {
  TrainArguments reduced = arguments("maps.jsonl");
  reduced.script.do_reduce_labels = true;
  const TaskSetup task = prepare_task(reduced);
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(task.validation->batch({0}).arrays.at("class_labels").values[0], 1.0f);
}

TEST_F(InstanceTraining, TrainsMeasuresAndKeepsItsProcessor) {
  const FineTuneResult result = fine_tune(arguments("coco.json"));
  for (const char* name : {"eval_loss", "eval_map", "eval_mar_100", "eval_map_dog", "eval_mar_100_cat"}) {
    const double value = mask_metric(result.evaluation, name);
    EXPECT_TRUE(std::isfinite(value) && value >= 0) << name << " " << value;
  }
  const std::string said = read_file(folder_ / "out" / "preprocessor_config.json");
  EXPECT_NE(said.find(R"("height": 32)"), std::string::npos) << said;
  EXPECT_EQ(said.find(R"("reduce_labels": true)"), std::string::npos) << said;
}

// What a query says beside the labels: the class and the score of the most certain pairs, and how many pixels both
// have.
TEST_F(InstanceTraining, ComparesMasksAsTheProcessorTellsThem) {
  const TaskSetup task = prepare_task(arguments("coco.json"));
  // Two queries of two classes; the left half and nothing.
  std::vector<float> masks{9, 9, -9, -9, 9, 9, -9, -9, 9, 9, -9, -9, 9, 9, -9, -9};
  masks.resize(32, -9);
  std::vector<float> labels(8 * 8, 0);
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 2; ++x) labels[8 * y + x] = 1;
  const NamedTensors found =
      task.preprocess_outputs({{"class_queries_logits", Tensor::from(std::vector<float>{5, 1, 0, 0, 3, 0}, {1, 2, 3})},
                               {"masks_queries_logits", Tensor::from(masks, {1, 2, 4, 4})},
                               {"class_labels", Tensor::from(std::vector<int64_t>{0}, {1, 1})},
                               {"mask_labels", Tensor::from(labels, {1, 1, 8, 8})}});
  EXPECT_EQ(found.at("classes").to_vector<float>(), (std::vector<float>{0, -1}));
  EXPECT_EQ(found.at("label_areas").to_vector<float>()[0], 16);
  EXPECT_EQ(found.at("areas").to_vector<float>()[0], 32);
  EXPECT_EQ(found.at("both").to_vector<float>()[0], 16);
  const float chance = std::exp(5.0f) / (std::exp(5.0f) + std::exp(1.0f) + 1),
              score = found.at("scores").to_vector<float>()[0];
  EXPECT_LT(score, chance);  // pixels near the edge are less sure
  EXPECT_GT(score, chance * 0.95f);
}

TEST_F(InstanceTraining, RefusesOtherModelsAndMaps) {
  write_png(folder_ / "map.png", {2, 2, 3, std::vector<uint8_t>(12, 0)});
  EXPECT_NE(test::message_of([&] { prepare_task(arguments("maps.jsonl")); }).find("expected the extents of"),
            std::string::npos);
  Model::from_config(R"({"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"],
    "num_encoder_blocks": 1, "depths": [1], "sr_ratios": [4], "hidden_sizes": [8], "patch_sizes": [3], "strides": [2],
    "num_attention_heads": [1], "mlp_ratios": [2], "decoder_hidden_size": 8, "id2label": {"0": "cat", "1": "dog"}})")
      ->save_pretrained((folder_ / "model").string());
  EXPECT_NE(test::message_of([&] { prepare_task(arguments("coco.json")); }).find("--task image-segmentation trains"),
            std::string::npos);
}

// A rectangle (left, top, width, height) of a class, with a score.
struct Rectangle {
  std::array<double, 4> sides;
  int64_t label;
  double score = 0;
};

// Values of torchmetrics 1.9 for masks that are rectangles.
TEST(MaskMetrics, AreThoseOfTorchmetrics) {
  const std::vector<std::vector<Rectangle>> labelled{
      {{{4, 4, 20, 20}, 0}, {{40, 40, 60, 50}, 1}, {{10, 70, 25, 40}, 0}},
      {{{0, 0, 110, 100}, 1}, {{60, 5, 12, 9}, 2}},
      {}};
  const std::vector<std::vector<Rectangle>> found{
      {{{5, 4, 20, 20}, 0, .9},
       {{42, 44, 60, 50}, 1, .8},
       {{12, 72, 25, 36}, 0, .7},
       {{60, 10, 30, 30}, 2, .6},
       {{4, 6, 19, 20}, 0, .5}},
      {{{2, 0, 100, 100}, 1, .95}, {{61, 6, 12, 9}, 2, .4}, {{59, 4, 12, 9}, 1, .3}},
      {{{8, 8, 9, 9}, 1, .2}}};
  const auto boxes = [](const std::vector<Rectangle>& rectangles) {
    PictureBoxes result;
    for (const Rectangle& each : rectangles)
      result.boxes.push_back(each.sides), result.classes.push_back(each.label), result.scores.push_back(each.score);
    return result;
  };
  std::vector<PictureBoxes> wanted, told;
  for (size_t i = 0; i < labelled.size(); ++i) wanted.push_back(boxes(labelled[i])), told.push_back(boxes(found[i]));
  const Metrics metrics = box_metrics(wanted, told, {"a", "b", "c"});
  const std::pair<const char*, double> expected[] = {
      {"map", 0.5841584205627441},       {"map_50", 0.8333333134651184},
      {"map_75", 0.6666666865348816},    {"map_small", 0.4757425785064697},
      {"map_medium", 0.699999988079071}, {"map_large", 0.8999999761581421},
      {"mar_1", 0.550000011920929},      {"mar_10", 0.6499999761581421},
      {"mar_100", 0.6499999761581421},   {"mar_small", 0.574999988079071},
      {"mar_medium", 0.699999988079071}, {"mar_large", 0.8999999761581421},
      {"map_a", 0.7514851689338684},     {"map_b", 0.800990104675293},
      {"map_c", 0.20000000298023224},    {"mar_100_a", 0.75},
      {"mar_100_b", 0.800000011920929},  {"mar_100_c", 0.4000000059604645}};
  for (const auto& [name, value] : expected) EXPECT_NEAR(mask_metric(metrics, name), value, 1e-6) << name;
}

}  // namespace
}  // namespace transom
