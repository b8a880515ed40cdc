// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/output/result_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/files.h"
#include "inputs/audio/sound.h"
#include "inputs/images/image.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

class ResultFiles : public testing::Test {
 protected:
  // Of tasks by what they give, whether or not one of them is built.
  static TaskRecord task(ResultKind result) {
    TaskRecord record = need_task("image-feature-extraction");
    record.result = result;
    return record;
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  test::TemporaryFolder folder_;
};

Picture gray(uint8_t first) { return {2, 1, 1, std::vector<uint8_t>{first, 255}}; }

TEST_F(ResultFiles, NamesTellWhatIsWritten) {
  const auto message = [&](ResultKind result, const char* name, bool several) {
    return test::message_of([&] { expect_result_file(task(result), name, several); });
  };
  EXPECT_EQ(message(ResultKind::kVectors, "v.npy", true), "");
  EXPECT_NE(message(ResultKind::kVectors, "v.txt", false).find(".npy or .safetensors"), std::string::npos);
  EXPECT_EQ(message(ResultKind::kDepth, "d.png", false), "");
  EXPECT_EQ(message(ResultKind::kDepth, "depths", true), "");
  EXPECT_EQ(message(ResultKind::kDepth, "d.npy", true), "");
  EXPECT_NE(message(ResultKind::kDepth, "d.png", true).find("a folder"), std::string::npos);
  EXPECT_NE(message(ResultKind::kSound, "d.png", false).find(".wav"), std::string::npos);
  EXPECT_TRUE(file_endings(task(ResultKind::kClasses)).empty());
  EXPECT_EQ(file_help(task(ResultKind::kTexts)), "");
}

TEST_F(ResultFiles, PicturesMasksAndSounds) {
  write_results(task(ResultKind::kDepth), path("d.png"), {DepthMap{{{1, 2}, {1, 2}}, gray(7)}}, {"a.png"});
  EXPECT_EQ(read_image(path("d.png")).pixels, (std::vector<uint8_t>{7, 7, 7, 255, 255, 255}));
  write_results(task(ResultKind::kDepth), path("d.npy"), {DepthMap{{{1, 2}, {1, 2}}, gray(7)}}, {"a.png"});
  EXPECT_NE(read_file(path("d.npy")).find("'shape': (1, 1, 2, )"), std::string::npos);
  write_results(task(ResultKind::kSegments), path("m.png"),
                {std::vector<Segment>{{"a", 1, gray(1)}, {"b", 1, gray(2)}}}, {"a.png"});
  EXPECT_EQ(read_image(path("m-1.png")).pixels[0], 1);
  EXPECT_EQ(read_image(path("m-2.png")).pixels[0], 2);
  write_results(task(ResultKind::kSound), path("s.wav"), {Waveform{8000, 1, {0, 0.5f, -0.5f}}}, {"text"});
  EXPECT_EQ(read_sound(path("s.wav")).samples.size(), 3u);
}

TEST_F(ResultFiles, SeveralStandInAFolderByTheirInputs) {
  const std::vector<TaskResult> results{std::vector{gray(1)}, std::vector{gray(2)}, std::vector{gray(3)}};
  write_results(task(ResultKind::kPictures), path("out"), results, {"x/a.png", "y/a.jpg", "b.png"});
  EXPECT_EQ(read_image(path("out/a.png")).pixels[0], 1);
  EXPECT_EQ(read_image(path("out/a-2.png")).pixels[0], 2);
  EXPECT_EQ(read_image(path("out/b.png")).pixels[0], 3);
}

TEST_F(ResultFiles, NumbersOfSeveralShapesAreRefused) {
  const std::vector<TaskResult> results{FeatureArray{{2}, {1, 2}}, FeatureArray{{1}, {1}}};
  EXPECT_NE(test::message_of([&] {
              write_results(task(ResultKind::kVectors), path("v.npy"), results, {"a", "b"});
            }).find("results of one shape"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("v.npy")));
}

}  // namespace
}  // namespace transom
