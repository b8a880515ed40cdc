// SPDX-License-Identifier: Apache-2.0
// The tasks that see images, on small models: batches, and files that are read ahead, change nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

class ImageTasks : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < 5; ++i) {
      write_file(folder_ / (std::to_string(i) + ".bmp"), test::bitmap(12 + 4 * (i % 2), [&](size_t place) {
                   return std::array<uint8_t, 3>{static_cast<uint8_t>(50 * i), static_cast<uint8_t>(place), 100};
                 }));
      files_.push_back((folder_ / (std::to_string(i) + ".bmp")).string());
    }
  }
  // A ResNet, whose pictures are cut to `size`.
  std::unique_ptr<Pipeline> pipeline(const char* task, const std::string& architecture, const Json& size) {
    const Json config{{"model_type", "resnet"},
                      {"architectures", {architecture}},
                      {"embedding_size", 8},
                      {"hidden_sizes", {8}},
                      {"depths", {1}},
                      {"layer_type", "basic"},
                      {"initializer_range", 0.7},
                      {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
    Model::from_config(dump_json(config), {.seed = 3})->save_pretrained(folder_.string());
    write_file(folder_ / "preprocessor_config.json",
               dump_json({{"image_processor_type", "ViTImageProcessor"},
                          {"do_resize", !size.is_null()},
                          {"size", size.is_null() ? Json{{"height", 8}, {"width", 8}} : size}}));
    return make_pipeline(task, folder_.string());
  }
  static bool near(const Json& a, const Json& b) {
    if (a.is_number_float() && b.is_number_float()) return std::abs(a.get<double>() - b.get<double>()) < 1e-5;
    if (a.type() != b.type() || a.size() != b.size() || a.is_primitive()) return a == b;
    for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y)
      if (!near(*x, *y)) return false;
    return true;
  }
  void expect_batches_like_single_images(const Pipeline& task) {
    std::vector<Json> alone;
    for (const Json& file : files_) alone.push_back(run_pipeline(task, file, Json::object()));
    EXPECT_NE(alone[0], alone[1]);
    for (const int64_t size : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{8}, INT64_MAX}) {
      const std::vector<Json> together = run_pipeline(task, files_, {{"batch_size", size}});
      ASSERT_EQ(together.size(), files_.size());
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(near(together[i], alone[i])) << "image " << i << " of batches of " << size;
    }
  }

  test::TemporaryFolder folder_;
  std::vector<Json> files_;
};

TEST_F(ImageTasks, BatchesGiveWhatSingleImagesGive) {
  const Json size{{"height", 8}, {"width", 8}};
  expect_batches_like_single_images(*pipeline("image-classification", "ResNetForImageClassification", size));
  expect_batches_like_single_images(*pipeline("image-feature-extraction", "ResNetModel", size));
}

// Where nothing makes the images of one size, those of another go through the model by themselves.
TEST_F(ImageTasks, ImagesOfSeveralSizes) {
  const auto task = pipeline("image-feature-extraction", "ResNetModel", Json());
  expect_batches_like_single_images(*task);
}

TEST_F(ImageTasks, BytesInMemoryAreAsFiles) {
  const auto task = pipeline("image-classification", "ResNetForImageClassification", {{"height", 8}, {"width", 8}});
  for (const Json& file : files_) {
    const std::string bytes = read_file(file.get<std::string>());
    const Json given = Json::binary({bytes.begin(), bytes.end()});
    const Json expected = run_pipeline(*task, file, Json::object());
    EXPECT_EQ(run_pipeline(*task, given, Json::object()), expected);
    EXPECT_EQ(run_pipeline(*task, Json{{"image", given}}, Json::object()), expected);
  }
  const std::string error = test::message_of([&] {
    run_pipeline(*task, Json::binary({'n', 'o', 'n', 'e'}), Json::object());
  });
  EXPECT_TRUE(error.starts_with("the input: expected a PNG, JPEG")) << error;
}

TEST_F(ImageTasks, AFileThatIsNoImageIsNamed) {
  write_file(folder_ / "text.bmp", "no image");
  files_.insert(files_.begin() + 3, (folder_ / "text.bmp").string());
  const auto task = pipeline("image-classification", "ResNetForImageClassification", {{"height", 8}, {"width", 8}});
  const std::string message = test::message_of([&] { run_pipeline(*task, files_, {{"batch_size", 2}}); });
  EXPECT_NE(message.find("text.bmp"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
