// SPDX-License-Identifier: Apache-2.0
// Frames of animations as Pillow shows them (tests/golden/make/moving.py), folders of frames, and files of enemies.
#include "inputs/images/frames/video_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/images/formats.h"
#include "inputs/images/frames/png_frames.h"
#include "support/golden.h"
#include "support/hostile_bytes.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

fs::path videos() { return test::golden_folder() / "video"; }

std::vector<int64_t> first_places(int64_t count) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

std::vector<Image> frames_of(const VideoFile& video, const std::vector<int64_t>& places) {
  std::vector<Image> frames;
  EXPECT_LE(video.frames(places, [&](const Image& frame) { frames.push_back(frame); }),
            static_cast<int64_t>(places.size()));
  return frames;
}

TEST(VideoFile, FramesOfAnimationsArePillows) {
  size_t seen = 0;
  for (const auto& [name, expected] : SafetensorsFile::open(videos() / "expected.safetensors").tensors()) {
    const VideoFile video(videos() / name);
    const int64_t count = expected.shape.at(0);
    EXPECT_EQ(video.count(), count) << name;
    const std::vector<Image> frames = frames_of(video, first_places(count + 1));
    ASSERT_EQ(frames.size(), static_cast<size_t>(count)) << name;
    const auto* values = reinterpret_cast<const uint8_t*>(expected.bytes.data());
    for (size_t i = 0; i < frames.size(); ++i, ++seen) {
      ASSERT_EQ((std::vector<int64_t>{frames[i].height, frames[i].width}),
                (std::vector<int64_t>{expected.shape.at(1), expected.shape.at(2)}));
      EXPECT_EQ(frames[i].pixels, std::vector<uint8_t>(values, values + frames[i].pixels.size()))
          << name << ", frame " << i;
      values += frames[i].pixels.size();
    }
  }
  EXPECT_GT(seen, 80u);
}

TEST(VideoFile, SomeFramesAreThoseOfAll) {
  for (const char* name : {"cleared.gif", "restored.gif", "over.png", "cleared.png", "frames"}) {
    const VideoFile video(videos() / name);
    const std::vector<Image> all = frames_of(video, first_places(8)), some = frames_of(video, {1, 4, 6, 9});
    ASSERT_EQ(some.size(), 3u) << name;
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(some[i].pixels, all.at(std::array<size_t, 3>{1, 4, 6}[i]).pixels) << name;
  }
}

TEST(VideoFile, AFolderGivesItsPicturesByNameAndSaysWhatItLeavesOut) {
  const test::TemporaryFolder folder;
  for (const char* name : {"02.png", "00.png", "01.png"})
    write_file(folder / name, read_file(videos() / "frames" / name));
  write_file(folder / ".hidden.png", "x");
  write_file(folder / "notes.txt", "x");
  const test::KeptLog log;
  const VideoFile video(folder.path());
  EXPECT_TRUE(log.has("what is no picture is left out (1 of 4)")) << log.text();
  EXPECT_EQ(video.count(), 3);
  const std::vector<Image> frames = frames_of(video, {0, 1, 2, 3});
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[1].pixels, read_image(videos() / "frames" / "01.png").pixels);
  EXPECT_TRUE(is_folder_of_frames(folder.path()));
  EXPECT_FALSE(is_folder_of_frames(folder / "notes.txt"));
  fs::create_directories(folder / "empty");
  EXPECT_EQ(test::message_without_folders([&] { VideoFile(folder / "empty"); }),
            "empty: a folder without pictures: expected the frames of a video");
}

TEST(VideoFile, APictureIsAVideoOfOneFrame) {
  const VideoFile video(videos() / "frames" / "00.png");
  EXPECT_EQ(video.count(), 1);
  EXPECT_EQ(frames_of(video, {0, 1}).size(), 1u);
  EXPECT_EQ(frames_of(video, {1}).size(), 0u);
}

// numpy.linspace(0, count * rate - 1, num=count, dtype=numpy.int64)
TEST(VideoFile, SamplesAsNumpyDoes) {
  EXPECT_EQ(sampled_frames(1, 4), (std::vector<int64_t>{0}));
  EXPECT_EQ(sampled_frames(4, 1), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(sampled_frames(4, 2), (std::vector<int64_t>{0, 2, 4, 7}));
  EXPECT_EQ(sampled_frames(5, 3), (std::vector<int64_t>{0, 3, 7, 10, 14}));
  for (const auto& [count, rate] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {-3, 2}, {1 << 20, 2}, {2, INT64_MAX}})
    EXPECT_NE(test::message_of([count = count, rate = rate] { sampled_frames(count, rate); }), "");
}

// ---- hostile files

void expect_refusals_of_frames(const std::string& whole, size_t end_mark) {
  const std::string file = whole.substr(0, whole.size() - end_mark);
  constexpr int64_t kFrames = 8;
  test::expect_refusals(file, "a file: ", [](const std::string& bytes) {
    const auto given =
        decode_frames(std::as_bytes(std::span(bytes)), "a file", first_places(kFrames), [](const Image&) {});
    if (given < kFrames) fail("a file: has {} frames", given);
  });
}

TEST(HostileVideos, GifsThatAreCutOffOrChangedAreRefused) {
  expect_refusals_of_frames(read_file(videos() / "restored.gif"), 1);
}

TEST(HostileVideos, PngsThatAreCutOffOrChangedAreRefused) {
  expect_refusals_of_frames(read_file(videos() / "restored.png"), 12);
}

std::string gif_of(int width, int height, const std::string& frames) {
  const auto two = [](int value) { return std::string{static_cast<char>(value & 255), static_cast<char>(value >> 8)}; };
  return "GIF89a" + two(width) + two(height) + std::string("\x80\0\0", 3) + std::string("\0\0\0\xff\xff\xff", 6) +
         frames;
}
// A frame of one pixel: minimal code size 2; clear, 0, end.
std::string gif_pixel(int left) {
  return std::string(",") + static_cast<char>(left & 255) + static_cast<char>(left >> 8) +
         std::string("\0\0\1\0\1\0\0\2\2\x44\1\0", 12);
}

// A canvas that would take 13 gigabytes, one that costs a gigapixel a hundred times over, and a frame beside it.
TEST(HostileVideos, ExtentsAreCheckedBeforeMemoryIsTaken) {
  const auto message = [](const std::string& file, int64_t count) {
    return test::message_of(
        [&] { decode_frames(std::as_bytes(std::span(file)), "a file", first_places(count), [](const Image&) {}); });
  };
  EXPECT_EQ(message(gif_of(65535, 65535, gif_pixel(0)), 1),
            "a file: a canvas of 65535 x 65535 pixels: expected at least 1 and at most 178956970 in all");
  std::string many;
  for (int i = 0; i < 40; ++i) many += gif_pixel(0);
  EXPECT_EQ(message(gif_of(6000, 6000, many), 40),
            "a file: a video whose frames of 6000 x 6000 have more than 1073741824 pixels in all");
  EXPECT_NE(message(gif_of(4, 4, gif_pixel(0) + gif_pixel(9)), 2).find("expected that it lies on the canvas of 4 x 4"),
            std::string::npos);
  EXPECT_EQ(message(gif_of(4, 4, ";"), 1), "a file: a GIF file without an image");
}

// The header of an APNG whose first frame says of itself what nobody should believe.
TEST(HostileVideos, FramesOfPngsLieOnTheirCanvas) {
  const std::string file = read_file(videos() / "over.png");
  EXPECT_TRUE(is_animated_png(std::as_bytes(std::span(file))));
  EXPECT_FALSE(is_animated_png(std::as_bytes(std::span(file).first(30))));
  const size_t control = file.find("fcTL");
  ASSERT_NE(control, std::string::npos);
  std::string wide = file;
  wide[control + 4 + 4] = '\x7f';  // the highest byte of its width; the checksum is that of another
  EXPECT_EQ(test::message_of(
                [&] { decode_frames(std::as_bytes(std::span(wide)), "a file", first_places(1), [](const Image&) {}); }),
            "a file: a broken PNG file: the checksum of a chunk is wrong");
}

}  // namespace
}  // namespace transom
