// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/frames/video_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "inputs/images/formats.h"
#include "inputs/images/frames/gif_frames.h"
#include "inputs/images/frames/png_frames.h"

namespace transom {
namespace {

[[noreturn]] void refuse_pixels(const std::string& where, int64_t width, int64_t height) {
  fail("{}: a video whose frames of {} x {} have more than {} pixels in all", where, width, height, kMostVideoPixels);
}

std::string lowered_ending(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end;
}

// What draws a video costs its pixels for each frame, and so does what looks at one.
template <typename Frames>
int64_t taken_frames(Frames& frames, const std::string& where, std::span<const int64_t> places,
                     const FrameTaker& take) {
  size_t given = 0;
  for (int64_t number = 0; given < places.size() && frames.next(); ++number) {
    const Image& canvas = frames.canvas();
    const int64_t pixels = canvas.width * canvas.height;
    if (pixels > kMostVideoPixels / (number + 1)) refuse_pixels(where, canvas.width, canvas.height);
    if (number == places[given]) take(canvas), ++given;
  }
  return static_cast<int64_t>(given);
}

template <typename Frames>
int64_t all_frames(Frames frames) {
  int64_t count = 0;
  while (frames.skip()) ++count;
  return count;
}

}  // namespace

int64_t decode_frames(Bytes file, const std::string& where, std::span<const int64_t> places, const FrameTaker& take) {
  if (places.empty()) return 0;
  if (is_gif(file)) {
    GifFrames frames(file, where);
    return taken_frames(frames, where, places, take);
  }
  if (is_animated_png(file)) {
    PngFrames frames(file, where);
    const int orientation = exif_orientation(file);
    return taken_frames(frames, where, places, [&](const Image& frame) {
      orientation == 1 ? take(frame) : take(oriented(frame, orientation));
    });
  }
  const Image picture = decode_image(file, where);
  if (places[0] != 0) return 0;
  take(picture);
  return 1;
}

VideoFile::VideoFile(fs::path path) : path_(std::move(path)) {
  if (!directory_exists(path_)) return;
  int64_t others = 0;
  for (const fs::path& entry : list_directory(path_)) {
    if (entry.filename().string().starts_with('.')) continue;
    if (is_image_name(entry) && !directory_exists(entry)) pictures_.push_back(entry);
    else ++others;
  }
  if (pictures_.empty()) fail("{}: a folder without pictures: expected the frames of a video", path_.string());
  if (others > 0)
    log(LogLevel::kWarning, fmt::format("{}: what is no picture is left out ({} of {})", path_.string(), others,
                                        others + static_cast<int64_t>(pictures_.size())));
}

int64_t VideoFile::count() const {
  if (!pictures_.empty()) return static_cast<int64_t>(pictures_.size());
  const std::string file = read_file(path_);
  const Bytes bytes = std::as_bytes(std::span(file));
  if (is_gif(bytes)) return all_frames<GifFrames>(GifFrames(bytes, path_.string()));
  if (is_animated_png(bytes)) return all_frames<PngFrames>(PngFrames(bytes, path_.string()));
  return 1;
}

int64_t VideoFile::frames(std::span<const int64_t> places, const FrameTaker& take) const {
  if (pictures_.empty()) {
    const std::string file = read_file(path_);
    return decode_frames(std::as_bytes(std::span(file)), path_.string(), places, take);
  }
  int64_t given = 0, pixels = 0;
  for (const int64_t place : places) {
    if (place >= static_cast<int64_t>(pictures_.size())) break;
    const Image frame = read_image(pictures_[static_cast<size_t>(place)]);
    pixels += frame.width * frame.height;
    if (pixels > kMostVideoPixels) refuse_pixels(path_.string(), frame.width, frame.height);
    take(frame);
    ++given;
  }
  return given;
}

bool is_video_name(const fs::path& path) {
  const std::string end = lowered_ending(path);
  return end == ".gif" || end == ".apng" || end == ".png";
}

bool is_folder_of_frames(const fs::path& path) {
  if (!directory_exists(path)) return false;
  const std::vector<fs::path> entries = list_directory(path);
  return std::any_of(entries.begin(), entries.end(), [](const fs::path& entry) {
    return is_image_name(entry) && lowered_ending(entry) != ".gif" && !directory_exists(entry);
  });
}

std::vector<int64_t> sampled_frames(int64_t count, int64_t rate) {
  if (count < 1 || rate < 1 || count > kMostVideoFrames / rate)
    fail("num_frames {} at a frame_sampling_rate of {}: expected numbers above 0 whose product is at most {}", count,
         rate, kMostVideoFrames);
  const int64_t last = count * rate - 1;
  std::vector<int64_t> places(static_cast<size_t>(count), 0);
  const double step = count > 1 ? static_cast<double>(last) / static_cast<double>(count - 1) : 0;  // as numpy.linspace
  for (int64_t i = 1; i < count; ++i)
    places[static_cast<size_t>(i)] =
        i + 1 == count ? last : static_cast<int64_t>(std::floor(static_cast<double>(i) * step));
  return places;
}

}  // namespace transom
