// SPDX-License-Identifier: Apache-2.0
// From pictures with boxes to what a detector learns from, and how its boxes are measured.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

double metric_of(const Metrics& metrics, const std::string& name) {
  const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const auto& each) { return each.first == name; });
  return at == metrics.end() ? -100 : at->second;
}

class DetectorTraining : public testing::Test {
 protected:
  void SetUp() override {
    picture("wide.png", 40, 20);
    picture("high.png", 20, 40);
    write_file(
        folder_ / "rows.jsonl",
        R"({"image": "wide.png", "objects": {"bbox": [[0, 0, 20, 10], [30, 5, 100, 10], [50, 0, 4, 4]], "category": [1, 0, 1]}})"
        "\n"
        R"({"image": "high.png", "objects": {"bbox": [[5, 10, 10, 20]], "category": [1]}})"
        "\n");
    Model::from_config(
        R"({"model_type": "detr", "architectures": ["DetrForObjectDetection"], "use_timm_backbone": false,
      "backbone_config": {"model_type": "resnet", "layer_type": "basic", "depths": [1, 1], "hidden_sizes": [6, 8],
        "embedding_size": 6, "out_features": ["stage2"]}, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
      "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
      "num_queries": 4, "id2label": {"0": "cat", "1": "dog"}})")
        ->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "DetrImageProcessor", "size": {"shortest_edge": 16, "longest_edge": 32}})");
  }
  void picture(const char* name, int64_t width, int64_t height) {
    std::vector<uint8_t> values(static_cast<size_t>(3 * width * height), 0);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i % 251);
    write_png(folder_ / name, {width, height, 3, values});
  }
  TrainArguments arguments() const {
    TrainArguments result;
    result.script.task = "object-detection";
    result.script.model_name_or_path = (folder_ / "model").string();
    result.script.train_file = result.script.validation_file = (folder_ / "rows.jsonl").string();
    result.training.output_dir = (folder_ / "out").string();
    result.training.do_train = result.training.do_eval = true;
    result.training.max_steps = 2;
    result.training.resolve();
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(DetectorTraining, BoxesArePartsOfPaddedPictures) {
  const TaskSetup task = prepare_task(arguments());
  const Batch batch = task.validation->batch({0, 1});
  EXPECT_EQ(batch.arrays.at("pixel_values").shape, (std::vector<int64_t>{2, 3, 32, 32}));
  // Of three boxes one lies outside, and one is cut off at the edge.
  EXPECT_EQ(batch.arrays.at("class_labels").values, (std::vector<float>{1, 0, 1, -100}));
  const std::vector<float> expected{0.25f, 0.125f, 0.5f,  0.25f, 0.875f, 0.25f, 0.25f, 0.25f,
                                    0.25f, 0.5f,   0.25f, 0.5f,  0,      0,     0,     0};
  const std::vector<float>& boxes = batch.arrays.at("boxes").values;
  ASSERT_EQ(boxes.size(), expected.size());
  for (size_t i = 0; i < boxes.size(); ++i) EXPECT_NEAR(boxes[i], expected[i], 1e-6) << i;
  const std::vector<float>& mask = batch.arrays.at("pixel_mask").values;
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1.0f), 2 * 16 * 32);
}

TEST_F(DetectorTraining, MirrorsBoxesWithTheirPictures) {
  const TaskSetup task = prepare_task(arguments());
  std::vector<float> places;
  for (uint64_t draw = 0; draw < 12; ++draw) {
    Batch batch = task.train->batch({0});
    task.train->augment(batch, draw);
    places.push_back(batch.arrays.at("boxes").values[0]);
  }
  for (const float place : places) EXPECT_TRUE(std::abs(place - 0.25f) < 1e-6 || std::abs(place - 0.75f) < 1e-6);
  EXPECT_NE(*std::min_element(places.begin(), places.end()), *std::max_element(places.begin(), places.end()));
}

TEST_F(DetectorTraining, TrainsAndMeasures) {
  const FineTuneResult result = fine_tune(arguments());
  for (const char* name : {"eval_loss", "eval_map", "eval_map_50", "eval_mar_100", "eval_map_dog"}) {
    const double value = metric_of(result.evaluation, name);
    EXPECT_TRUE(std::isfinite(value) && value >= 0) << name << " " << value;
  }
}

// Where classes each have a chance of their own the most certain ones count, of whichever queries.
TEST_F(DetectorTraining, RanksClassesWithAChanceOfTheirOwn) {
  Model::from_config(
      R"({"model_type": "rt_detr", "architectures": ["RTDetrForObjectDetection"], "backbone_config": {
      "model_type": "rt_detr_resnet", "layer_type": "basic", "depths": [1, 1], "hidden_sizes": [6, 8],
        "embedding_size": 6, "out_indices": [1, 2]}, "encoder_in_channels": [6, 8], "encoder_hidden_dim": 8,
      "encoder_attention_heads": 2, "encoder_ffn_dim": 12, "encode_proj_layers": [1], "hidden_expansion": 0.5,
      "d_model": 8, "decoder_in_channels": [8, 8], "decoder_layers": 1, "decoder_attention_heads": 2,
      "decoder_ffn_dim": 12, "decoder_n_points": 2, "num_feature_levels": 2, "num_queries": 3, "num_denoising": 4,
      "id2label": {"0": "cat", "1": "dog"}})")
      ->save_pretrained((folder_ / "model").string());
  write_file(folder_ / "model" / "preprocessor_config.json",
             R"({"image_processor_type": "RTDetrImageProcessor", "size": {"height": 32, "width": 32}})");
  const TaskSetup task = prepare_task(arguments());
  const Tensor logits = Tensor::from(std::vector<float>{3, 2, -1, 4, -5, -6}, {1, 3, 2}),
               boxes = Tensor::from(std::vector<float>{0.1f, 0.1f, 0.1f, 0.1f, 0.2f, 0.2f, 0.2f, 0.2f,  //
                                                       0.3f, 0.3f, 0.3f, 0.3f},
                                    {1, 3, 4});
  const NamedTensors ranked = task.preprocess_outputs({{"logits", logits},
                                                       {"pred_boxes", boxes},
                                                       {"class_labels", Tensor::from(std::vector<int64_t>{0}, {1, 1})},
                                                       {"boxes", slice(boxes, 1, 0, 1)}});
  EXPECT_EQ(ranked.at("classes").to_vector<float>(), (std::vector<float>{1, 0, 1}));
  EXPECT_NEAR(ranked.at("scores").to_vector<float>()[2], 1 / (1 + std::exp(-2.0)), 1e-6);
  const std::vector<float> places = ranked.at("pred_boxes").to_vector<float>();
  EXPECT_EQ((std::vector<float>{places[0], places[4], places[8]}), (std::vector<float>{0.2f, 0.1f, 0.1f}));

  const FineTuneResult result = fine_tune(arguments());
  for (const char* name : {"eval_loss", "eval_map", "eval_mar_100"}) {
    const double value = metric_of(result.evaluation, name);
    EXPECT_TRUE(std::isfinite(value) && value >= 0) << name << " " << value;
  }
}

TEST_F(DetectorTraining, RefusesRowsThatAreNone) {
  const auto refusal = [&](const std::string& objects) {
    write_file(folder_ / "rows.jsonl", R"({"image": "wide.png", "objects": )" + objects + "}\n");
    return test::message_of([&] { prepare_task(arguments()); });
  };
  EXPECT_NE(refusal(R"({"bbox": [[0, 0, -1, 4]], "category": [1]})").find("expected boxes [left, top, width, height]"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"bbox": [[0, 0, 1, 4]], "category": [1, 1]})").find("expected a class for each box"),
            std::string::npos);
}

// Values of pycocotools 2.0.
TEST(BoxMetrics, AreThoseOfCoco) {
  const std::vector<PictureBoxes> labelled{{{{10, 10, 20, 20}, {40, 40, 30, 30}}, {0, 1}, {}}};
  const std::vector<PictureBoxes> exact{{{{40, 40, 30, 30}, {10, 10, 20, 20}}, {1, 0}, {0.9, 0.8}}};
  const Metrics best = box_metrics(labelled, exact, {"a", "b", "c"});
  EXPECT_NEAR(metric_of(best, "map"), 1, 1e-12);
  EXPECT_NEAR(metric_of(best, "mar_1"), 1, 1e-12);
  EXPECT_NEAR(metric_of(best, "map_large"), -1, 1e-12);  // no box is so large
  EXPECT_NEAR(metric_of(best, "map_c"), -1, 1e-12);      // nothing is labelled so
  const std::vector<PictureBoxes> none{{{}, {}, {}}};
  EXPECT_NEAR(metric_of(box_metrics(labelled, none, {"a", "b", "c"}), "map"), 0, 1e-12);
}

}  // namespace
}  // namespace transom
