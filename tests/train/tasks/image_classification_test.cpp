// SPDX-License-Identifier: Apache-2.0
// From folders of pictures to a model that knows them.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "data/labelled_files.h"
#include "data/padding.h"
#include "images/image.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "train/tasks/task_data.h"
#include "transom/error.h"

namespace transom {
namespace {

// A BMP file of one colour with a spot that differs from file to file.
std::string picture(uint8_t red, uint8_t green, size_t number) {
  constexpr size_t kSide = 12;
  return test::bitmap(kSide, [&](size_t i) {
    const bool spot = i % kSide == number % kSide;
    return std::array<uint8_t, 3>{red, green, static_cast<uint8_t>(spot ? 255 : 0)};
  });
}

class ImageTraining : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 12; ++i)
      for (const auto& [name, red, green] : {std::tuple{"red", 230, 20}, {"green", 20, 230}}) {
        fs::create_directories(folder_ / "train" / name);
        write_file(folder_ / "train" / name / (std::to_string(i) + ".bmp"),
                   picture(static_cast<uint8_t>(red), static_cast<uint8_t>(green), static_cast<size_t>(i)));
      }
    write_file(folder_ / "train" / "red" / "notes.txt", "no image");
    Model::from_config(R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
      "embedding_size": 8, "hidden_sizes": [8], "depths": [1], "layer_type": "basic"})")
        ->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}})");
  }
  test::TemporaryFolder folder_;
};

TEST_F(ImageTraining, ClassesAreFolders) {
  const LabelledFiles data = LabelledFiles::open_folder(folder_ / "train", is_image_name, "images");
  EXPECT_EQ(data.classes, (std::vector<std::string>{"green", "red"}));
  ASSERT_EQ(data.files.size(), 24u);
  EXPECT_EQ(data.files.front().path.filename(), "0.bmp");
  EXPECT_EQ(data.files.front().label, 0);
  EXPECT_EQ(data.files.back().label, 1);
  EXPECT_NE(test::message_of([&] {
              LabelledFiles::open_folder(folder_ / "train" / "red", is_image_name, "images");
            }).find("one a class"),
            std::string::npos);
}

TEST_F(ImageTraining, LearnsTheClassesAndSavesTheProcessor) {
  TrainArguments arguments;
  arguments.script.model_name_or_path = (folder_ / "model").string();
  arguments.script.train_dir = (folder_ / "train").string();
  arguments.training.output_dir = (folder_ / "out").string();
  arguments.training.per_device_train_batch_size = 8;
  arguments.training.num_train_epochs = 12;
  arguments.training.learning_rate = 1e-2;
  arguments.training.do_train = arguments.training.do_eval = true;
  arguments.training.resolve();
  TaskSetup task = prepare_task(arguments);
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"green", "red"}));
  EXPECT_EQ(task.train->rows, 20);  // 15 % of 24, rounded up, are for validation
  EXPECT_EQ(task.validation->rows, 4);

  // The same draw gives the same picture, another one another.
  const auto drawn = [&](uint64_t draw) {
    Batch batch = task.train->batch({0, 1, 2});
    task.train->augment(batch, draw);
    return batch.arrays.at("pixel_values").values;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));

  Trainer trainer(std::move(task.model), arguments.training);
  configure_trainer(trainer, task);
  trainer.train();
  const Metrics metrics = trainer.evaluate();
  double accuracy = 0;
  for (const auto& [name, value] : metrics)
    if (name == "eval_accuracy") accuracy = value;
  EXPECT_EQ(accuracy, 1);
  trainer.save_model();
  EXPECT_TRUE(fs::exists(folder_ / "out" / "preprocessor_config.json"));
}

TEST_F(ImageTraining, WithoutCropsAndFlipsATrainingImageIsTheWholeOne) {
  TrainArguments arguments = parse_train_arguments(
      {"--model_name_or_path", (folder_ / "model").string(), "--train_dir", (folder_ / "train").string(),
       "--output_dir", (folder_ / "out").string(), "--random_crop_area", "1", "--random_flip", "false"});
  const TaskSetup task = prepare_task(arguments);
  const auto drawn = [&](uint64_t draw) {
    Batch batch = task.train->batch({0, 1, 2});
    task.train->augment(batch, draw);
    return batch.arrays.at("pixel_values").values;
  };
  EXPECT_EQ(drawn(1), drawn(2));
  EXPECT_NE(test::message_of([&] {
              parse_train_arguments({"--random_crop_area", "0"});
            }).find("random_crop_area"),
            std::string::npos);
}

// As run_image_classification: a height and a width are those of the whole picture, a shortest edge keeps its form.
TEST_F(ImageTraining, EvaluatesTheWholePictureOrItsMiddle) {
  constexpr unsigned char kWide = 16, kHigh = 8;
  std::string wide("BM", 2);
  wide.resize(54);
  wide[10] = 54, wide[14] = 40, wide[18] = kWide, wide[22] = kHigh, wide[26] = 1, wide[28] = 24;
  for (int i = 0; i < kWide * kHigh; ++i) wide.append(3, i % kWide < 2 ? '\xff' : '\0');  // two white columns
  fs::create_directories(folder_ / "wide" / "red");
  fs::create_directories(folder_ / "wide" / "green");
  for (const char* name : {"red", "green"}) write_file(folder_ / "wide" / name / "0.bmp", wide);
  const auto corner = [&](const std::string& size) {
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "ViTImageProcessor", "size": )" + size + "}");
    const TaskSetup task = prepare_task(parse_train_arguments(
        {"--model_name_or_path", (folder_ / "model").string(), "--train_dir", (folder_ / "train").string(),
         "--validation_dir", (folder_ / "wide").string(), "--output_dir", (folder_ / "out").string()}));
    return task.validation->batch({0}).arrays.at("pixel_values").values.at(0);
  };
  EXPECT_GT(corner(R"({"height": 8, "width": 8})"), 0);
  EXPECT_EQ(corner(R"({"shortest_edge": 8})"), -1);
}

TEST_F(ImageTraining, ATableNamesFilesAndLabels) {
  write_file(folder_ / "rows.csv", "image,label\ntrain/red/0.bmp,7\ntrain/green/1.bmp,10\n");
  TrainArguments arguments;
  arguments.script.config_name = (folder_ / "model").string();
  arguments.script.train_file = arguments.script.validation_file = (folder_ / "rows.csv").string();
  arguments.training.output_dir = (folder_ / "out").string();
  arguments.training.do_train = arguments.training.do_eval = true;
  arguments.training.resolve();
  const TaskSetup task = prepare_task(arguments);
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"7", "10"}));  // by value
  EXPECT_EQ(task.validation->batch({1, 0}).labels, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(task.validation->batch({1}).arrays.at("pixel_values").shape, (std::vector<int64_t>{1, 3, 8, 8}));
}

}  // namespace
}  // namespace transom
