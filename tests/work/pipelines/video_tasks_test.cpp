// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "inputs/images/frames/video_file.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/task_pipelines.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

fs::path video(const char* name) { return test::golden_folder() / "video" / name; }
std::string model() { return (test::golden_folder() / "videomae-video-classification" / "model").string(); }

std::vector<double> scores_of_result(const TaskResult& result) {
  std::vector<double> scores;
  for (const ClassScore& each : std::get<std::vector<ClassScore>>(result)) scores.push_back(each.score);
  return scores;
}

TEST(VideoTasks, AVideoIsAFileItsBytesAFolderOrFrames) {
  const auto task = make_pipeline("video-classification", model());
  std::vector<PictureSource> frames;
  VideoFile(video("plain.gif")).frames(std::vector<int64_t>{0, 1, 2, 3}, [&](const Image& frame) {
    frames.emplace_back(Picture{.width = frame.width, .height = frame.height, .channels = 3, .values = frame.pixels});
  });
  const std::string bytes = read_file(video("plain.gif"));
  const std::vector<TaskResult> results =
      run_pipeline(*task, {VideoInput(video("plain.gif").string()), VideoInput(FileBytes{bytes}), VideoInput(frames)},
                   {{"batch_size", int64_t{2}}});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(scores_of_result(results[0]), scores_of_result(results[1]));
  for (size_t i = 0; i < scores_of_result(results[0]).size(); ++i)
    EXPECT_NEAR(scores_of_result(results[0])[i], scores_of_result(results[2])[i], 1e-6);
  EXPECT_EQ(run_pipeline(*task, {VideoInput(video("frames").string())}, {}).size(), 1u);
}

TEST(VideoTasks, AShortVideoIsRefused) {
  const auto task = make_pipeline("video-classification", model());
  const auto message = [&](const TaskOptions& options) {
    return test::message_without_folders(
        [&] { run_pipeline(*task, {VideoInput(video("plain.gif").string())}, options); });
  };
  EXPECT_EQ(message({{"frame_sampling_rate", int64_t{3}}}),
            "plain.gif: expected at least 12 frames for num_frames 4 and frame_sampling_rate 3, found fewer");
  EXPECT_EQ(message({{"num_frames", int64_t{0}}}), "num_frames: expected 4, as the model has it, found 0");
  EXPECT_EQ(message({{"num_frames", int64_t{4096}}}), "num_frames: expected 4, as the model has it, found 4096");
}

TEST(VideoTasks, HasTypesOfItsOwn) {
  const VideoClassificationPipeline classify(model());
  VideoClassificationTask::Options options;
  options.top_k = 2;
  options.frame_sampling_rate = 2;
  EXPECT_EQ(classify(video("plain.gif").string(), options).size(), 2u);
}

}  // namespace
}  // namespace transom
