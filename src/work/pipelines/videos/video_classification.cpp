// SPDX-License-Identifier: Apache-2.0
// Classes of videos, which are sampled as Transformers' VideoClassificationPipeline does with an image processor.
#include <algorithm>

#include "base/error.h"
#include "base/threads/prefetcher.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "inputs/images/frames/clip.h"
#include "inputs/images/frames/video_file.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

constexpr int64_t kMostSampledFrames = 4096;

// Each reader gives the frames at the places and returns how many there were.
struct VideoReader {
  std::span<const int64_t> places;
  const FrameTaker& take;
  int64_t operator()(const std::string& path) const { return VideoFile(path).frames(places, take); }
  int64_t operator()(const FileBytes& file) const {
    return decode_frames(std::as_bytes(std::span(file.bytes)), "the input", places, take);
  }
  int64_t operator()(const std::vector<PictureSource>& frames) const {
    int64_t given = 0;
    for (const int64_t place : places) {
      if (place >= static_cast<int64_t>(frames.size())) break;
      take(image_of(frames[static_cast<size_t>(place)]));
      ++given;
    }
    return given;
  }
};

std::string name_of_video(const VideoSource& source) {
  const auto* path = std::get_if<std::string>(&source);
  return path ? *path : "the input";
}

class VideoClassification : public Pipeline {
 public:
  explicit VideoClassification(ImageModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const NoGradient inference;
    const Sampling sampling = sampling_of(options);
    const auto count = static_cast<int64_t>(inputs.size());
    const int64_t batch_size = batch_size_of(options);
    Prefetcher<std::vector<Clip>> batches((count + batch_size - 1) / batch_size, [&](int64_t number) {
      const int64_t first = number * batch_size;
      std::vector<Clip> clips(static_cast<size_t>(std::min(batch_size, count - first)));
      parallel_for(clips.size(),
                   [&](size_t i) { clips[i] = clip_of(inputs[static_cast<size_t>(first) + i], sampling); });
      return clips;
    });
    std::vector<TaskResult> results;
    while (batches.left() > 0) {
      const std::vector<Clip> clips = batches.next();
      for (auto first = clips.begin(); first != clips.end();) {
        const auto end = std::find_if(first, clips.end(), [&](const Clip& clip) { return !clip.is_like(*first); });
        for (const std::vector<float>& logits : logits_of({first, end})) results.emplace_back(classes(logits, options));
        first = end;
      }
    }
    return results;
  }

 private:
  struct Sampling {
    int64_t frames, rate;
    std::vector<int64_t> places;
  };
  Sampling sampling_of(const TaskOptions& options) const {
    Sampling sampling;
    const int64_t own = model_.model->config().get_int("num_frames");
    sampling.frames = int_option(options, "num_frames", own);
    sampling.rate = int_option(options, "frame_sampling_rate", 1);
    // Before a frame is read: it has a position for each of its own frames, and for no other.
    if (sampling.frames != own) fail("num_frames: expected {}, as the model has it, found {}", own, sampling.frames);
    if (own < 1 || own > kMostSampledFrames) fail("num_frames: expected 1 to {}, found {}", kMostSampledFrames, own);
    sampling.places = sampled_frames(sampling.frames, sampling.rate);
    return sampling;
  }

  Clip clip_of(const TaskInput& input, const Sampling& sampling) const {
    const VideoSource& source = video_input(input).source;
    const std::string name = name_of_video(source);
    Clip clip;
    const FrameTaker take = [&](const Image& frame) { clip.add(model_.processor(frame), name); };
    const int64_t found = std::visit(VideoReader{sampling.places, take}, source);
    if (found < sampling.frames)
      fail("{}: expected at least {} frames for num_frames {} and frame_sampling_rate {}, found fewer", name,
           sampling.places.back() + 1, sampling.frames, sampling.rate);
    return clip;
  }

  std::vector<std::vector<float>> logits_of(std::span<const Clip> clips) const {
    std::vector<float> pixels;
    for (const Clip& clip : clips) pixels.insert(pixels.end(), clip.values.begin(), clip.values.end());
    const auto count = static_cast<int64_t>(clips.size());
    const Shape shape{count, clips[0].frames, 3, clips[0].height, clips[0].width};
    const std::vector<float> all =
        model_.model->forward({{"pixel_values", Tensor::from(pixels, shape)}}).at("logits").to_vector<float>();
    const auto width = static_cast<ptrdiff_t>(all.size() / clips.size());
    std::vector<std::vector<float>> rows;
    for (auto at = all.begin(); at != all.end(); at += width) rows.emplace_back(at, at + width);
    return rows;
  }

  // As default_function() but that one class alone is no reason for a sigmoid here.
  std::vector<ClassScore> classes(const std::vector<float>& logits, const TaskOptions& options) const {
    const std::string function = default_function(model_.model->config(), std::max<size_t>(logits.size(), 2));
    auto classes = classes_of(logits, text_option(options, "function_to_apply", function), labels_);
    classes.resize(classes_wanted(options, classes.size(), 5));
    return classes;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

TaskParameters video_classification_parameters() {
  using enum TaskParameter::Type;
  return {
      {"top_k", kInteger, "number of classes to return; none: all", "5"},
      {"num_frames", kInteger, "frames of the video that the model sees: as many as it learned with"},
      {"frame_sampling_rate", kInteger, "they are taken from this many times as many frames", "1"},
      function_to_apply_parameter(),
  };
}

constexpr TaskRecord kVideoClassification{.name = "video-classification",
                                          .example = "clip.gif frames/",
                                          .input = InputKind::kVideo,
                                          .result = ResultKind::kClasses,
                                          .json = {.classes = JsonForm::Classes::kScoreFirst},
                                          .parameters = video_classification_parameters,
                                          .load = load_image_task<VideoClassification>};
const RegisterTask kRegisterVideoClassification(kVideoClassification);

}  // namespace
}  // namespace transom
