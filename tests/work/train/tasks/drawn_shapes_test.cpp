// SPDX-License-Identifier: Apache-2.0
// The segmenters of examples/data/shapes learn pictures by heart: what the guide does with all ten of them, here with
// two.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/folders.h"
#include "support/kept_log.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"

namespace transom {
namespace {

// The evaluation on the pictures that are trained on.
Metrics learnt(const std::string& task, const std::string& model, const std::string& rows,
               std::vector<std::string> flags) {
  const std::filesystem::path shapes = std::filesystem::path(test::source_folder()) / "examples" / "data" / "shapes";
  const test::TemporaryFolder work;
  flags.insert(flags.end(), {"--task",
                             task,
                             "--config_name",
                             (shapes / model).string(),
                             "--train_file",
                             (shapes / rows).string(),
                             "--validation_file",
                             (shapes / rows).string(),
                             "--max_train_samples",
                             "2",
                             "--max_eval_samples",
                             "2",
                             "--per_device_train_batch_size",
                             "2",
                             "--do_train",
                             "--do_eval",
                             "--random_flip",
                             "false",
                             "--save_strategy",
                             "no",
                             "--output_dir",
                             (work.path() / "out").string()});
  const test::KeptLog log;
  return fine_tune(parse_train_arguments(flags)).evaluation;
}

double drawn_metric(const Metrics& metrics, const std::string& name) {
  const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const auto& each) { return each.first == name; });
  return at == metrics.end() ? -1 : at->second;
}

TEST(DrawnShapes, ASegmenterLearnsTheirPixels) {
  const Metrics found =
      learnt("image-segmentation", "segmenter", "maps.csv", {"--max_steps", "48", "--learning_rate", "0.01"});
  EXPECT_GT(drawn_metric(found, "eval_mean_iou"), 0.97);
}

TEST(DrawnShapes, ASegmenterLearnsTheirObjects) {
  const Metrics found =
      learnt("instance-segmentation", "masks_of_objects", "instances.json",
             {"--max_steps", "40", "--learning_rate", "0.006", "--image_height", "64", "--image_width", "64"});
  EXPECT_GT(drawn_metric(found, "eval_map_50"), 0.9);
}

}  // namespace
}  // namespace transom
