// SPDX-License-Identifier: Apache-2.0
// Videos without a codec, as frames one by one: animations (GIF, APNG), and folders of pictures in the order of their
// names. A picture alone is a video of one frame.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "inputs/images/image.h"

namespace transom {

using FrameTaker = std::function<void(const Image& frame)>;

constexpr int64_t kMostVideoFrames = 1 << 20;

// Gives the frames of an animation at `places`, which rise, and stops behind the last of them; returns how many it
// gave, which is less where the video is shorter. Memory is that of some frames, whatever the file says. Refuses broken
// files, and those whose frames have more pixels in all than kMostVideoPixels.
int64_t decode_frames(std::span<const std::byte> file, const std::string& where, std::span<const int64_t> places,
                      const FrameTaker& take);
constexpr int64_t kMostVideoPixels = int64_t{1} << 30;

class VideoFile {
 public:
  // Lists what a folder holds, and says which of its files are left out, for no pictures. Files are looked at later.
  explicit VideoFile(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  int64_t count() const;  // of an animation without drawing its frames
  // As decode_frames().
  int64_t frames(std::span<const int64_t> places, const FrameTaker& take) const;

 private:
  std::filesystem::path path_;
  std::vector<std::filesystem::path> pictures_;  // of a folder
};

// Whether a file's name ends as an animation's does.
bool is_video_name(const std::filesystem::path& path);
// Whether a directory holds pictures itself, so that it is a video; animations in it (GIF) make it none.
bool is_folder_of_frames(const std::filesystem::path& path);
// The numbers of `count` frames, evenly from the first to that at count * rate - 1, as Transformers samples them.
std::vector<int64_t> sampled_frames(int64_t count, int64_t rate);

}  // namespace transom
