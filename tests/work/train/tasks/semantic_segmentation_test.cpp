// SPDX-License-Identifier: Apache-2.0
// From pictures with maps of their classes to a model that tells the class of each pixel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/numbers/mt19937.h"
#include "inputs/images/write_png.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "transom/media.h"
#include "work/train/metrics/segmentation_metrics.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

constexpr int64_t kMapSide = 16;

// Red and blue boxes on a gray ground, and where they are: classes 1 and 2.
void write_scene(const fs::path& folder, int64_t number) {
  Mt19937 random(static_cast<uint64_t>(number));
  std::vector<uint8_t> picture(3 * kMapSide * kMapSide, 90), classes(kMapSide * kMapSide, 0);
  for (const uint8_t label : {uint8_t{1}, uint8_t{2}}) {
    const int64_t left = random.randint(kMapSide - 6), top = random.randint(kMapSide - 6);
    for (int64_t y = top; y < top + 6; ++y)
      for (int64_t x = left; x < left + 6; ++x) {
        const auto at = static_cast<size_t>(y * kMapSide + x);
        classes[at] = label;
        picture[3 * at] = label == 1 ? 250 : 10, picture[3 * at + 1] = 10, picture[3 * at + 2] = label == 2 ? 250 : 10;
      }
  }
  const std::string name = std::to_string(number) + ".png";
  write_png(folder / ("picture" + name), {kMapSide, kMapSide, 3, picture});
  write_png(folder / ("classes" + name), {kMapSide, kMapSide, 1, classes});
}

class SemanticSegmentation : public testing::Test {
 protected:
  void SetUp() override {
    std::string table = "image,label\n";
    for (int64_t i = 0; i < 10; ++i) {
      write_scene(folder_.path(), i);
      table += fmt::format("picture{}.png,classes{}.png\n", i, i);
    }
    write_file(folder_ / "train.csv", table);
    Model::from_config(R"({"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"],
      "num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [12, 16], "sr_ratios": [2, 1], "patch_sizes": [3, 3],
      "strides": [1, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
      "drop_path_rate": 0, "classifier_dropout_prob": 0, "id2label": {"0": "ground", "1": "red", "2": "blue"}})")
        ->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "SegformerImageProcessor", "size": {"height": 16, "width": 16}})");
  }

  TrainArguments arguments() const {
    TrainArguments result;
    result.script.task = "image-segmentation";
    result.script.model_name_or_path = (folder_ / "model").string();
    result.script.train_file = result.script.validation_file = (folder_ / "train.csv").string();
    result.training.output_dir = (folder_ / "out").string();
    result.training.do_train = result.training.do_eval = true;
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(SemanticSegmentation, LearnsClassesOfPixels) {
  TrainArguments run = arguments();
  run.training.learning_rate = 1e-2;
  run.training.num_train_epochs = 60;
  run.training.per_device_train_batch_size = 5;
  run.script.random_flip = false;
  run.training.resolve();
  const FineTuneResult result = fine_tune(run);
  const auto found = std::find_if(result.evaluation.begin(), result.evaluation.end(),
                                  [](const auto& metric) { return metric.first == "eval_mean_iou"; });
  ASSERT_NE(found, result.evaluation.end());
  EXPECT_GT(found->second, 0.9);
}

TEST_F(SemanticSegmentation, RefusesMapsThatDoNotFit) {
  write_png(folder_ / "classes3.png", {5, 4, 1, std::vector<uint8_t>(20, 0)});
  EXPECT_NE(test::message_of([&] { fine_tune(arguments()); }).find("expected the extents of"), std::string::npos);
  write_png(folder_ / "classes3.png", {1, 1, 3, std::vector<uint8_t>{1, 2, 3}});
  EXPECT_NE(test::message_of([&] { prepare_task(arguments()); }).find("whose levels are classes, found colours"),
            std::string::npos);
}

// Classes beyond those of the checkpoint need a head of their own.
TEST_F(SemanticSegmentation, TakesClassesFromTheMaps) {
  write_png(folder_ / "classes3.png", {kMapSide, kMapSide, 1, std::vector<uint8_t>(kMapSide * kMapSide, 4)});
  TrainArguments run = arguments();
  EXPECT_NE(test::message_of([&] { prepare_task(run); }).find("decode_head.classifier.weight"), std::string::npos);
  run.script.ignore_mismatched_sizes = true;
  EXPECT_EQ(prepare_task(run).model->labels().size(), 5u);
}

TEST(SegmentationMetrics, AreThoseOfEvaluate) {
  // evaluate's mean_iou of [[0, 0, 1], [1, 1, 3]] found and [[0, 1, 1], [1, 1, 0]] labelled, of 4 classes.
  const std::vector<double> counts{1, 0, 0, 1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const Metrics metrics = segmentation_metrics(counts, {"a", "b", "c", "d"});
  const auto value = [&](const std::string& name) {
    const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const auto& each) { return each.first == name; });
    return at == metrics.end() ? -1.0 : at->second;
  };
  EXPECT_NEAR(value("overall_accuracy"), 4.0 / 6, 1e-12);
  EXPECT_NEAR(value("mean_accuracy"), (0.5 + 0.75) / 2, 1e-12);
  EXPECT_NEAR(value("iou_a"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(value("iou_b"), 0.75, 1e-12);
  EXPECT_NEAR(value("iou_d"), 0, 1e-12);
  EXPECT_EQ(value("iou_c"), -1);       // no pixel has it
  EXPECT_EQ(value("accuracy_d"), -1);  // none is labelled so
  EXPECT_NEAR(value("mean_iou"), (1.0 / 3 + 0.75 + 0) / 3, 1e-12);
}

}  // namespace
}  // namespace transom
