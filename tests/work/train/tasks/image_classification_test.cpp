// SPDX-License-Identifier: Apache-2.0
// From folders of pictures to a model that knows them.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/data/text/padding.h"
#include "inputs/images/image.h"
#include "support/bitmap.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/train/tasks/task_data.h"

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

// A folder as it lies on people's disks: notebooks and systems leave their own files in it.
TEST_F(ImageTraining, WhatIsHiddenOrHoldsNoImagesIsNoClass) {
  const fs::path train = folder_ / "train";
  const std::string bmp = picture(1, 2, 3);
  for (const char* name : {".ipynb_checkpoints", "__MACOSX", "empty", "notes", "red/.thumbnails", "red/deep/er"})
    fs::create_directories(train / name);
  write_file(train / ".ipynb_checkpoints" / "0.bmp", bmp);
  write_file(train / "__MACOSX" / "0.bmp", bmp);
  write_file(train / "red" / ".thumbnails" / "0.bmp", bmp);
  write_file(train / "red" / "._0.bmp", bmp);
  write_file(train / "red" / "deep" / "er" / "UPPER.BMP", bmp);
  write_file(train / "red" / "photo.TIFF", "II*");
  write_file(train / "green" / "scan.tif", "II*");
  write_file(train / "notes" / "a.txt", "x");
  write_file(train / "beside.bmp", bmp);
  fs::create_directory_symlink(train / "red", train / "red" / "deep" / "loop");
  fs::create_symlink(train / "red" / "0.bmp", train / "green" / "link.bmp");
  const test::KeptLog log;
  const LabelledFiles data = LabelledFiles::open_folder(train, is_image_name, "images");
  EXPECT_EQ(data.classes, (std::vector<std::string>{"green", "red"}));
  EXPECT_EQ(data.files.size(), 26u);
  for (const char* text : {"folders without images are no classes: 'empty', 'notes'",
                           "files that are not read as images are left out: 1 .tif, 1 .tiff, 2 .txt",
                           "files beside the folders have no class and are left out: 1 .bmp"})
    EXPECT_TRUE(log.has(text)) << log.text();
  fs::create_directories(folder_ / "scans" / "a");
  write_file(folder_ / "scans" / "a" / "b.tiff", "II*");
  EXPECT_EQ(
      test::message_without_folders([&] { LabelledFiles::open_folder(folder_ / "scans", is_image_name, "images"); }),
      "scans: its folders hold no images that are read; found 1 .tiff");
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
  write_file(folder_ / "other.csv", "file,label\ntrain/red/0.bmp,7\n");
  EXPECT_EQ(test::message_of([&] { LabelledFiles::read_rows(Dataset::load(folder_ / "other.csv"), "image", "label"); }),
            (folder_ / "other.csv").string() +
                ": row 1: expected a column 'image' (the files: --image_column_name, --audio_column_name), found file, "
                "label.");
}

}  // namespace
}  // namespace transom
