// SPDX-License-Identifier: Apache-2.0
// Videos in one folder a class, or named in a table. For training frames that follow each other are taken from a random
// place on, and a random part of them, the same of all, is resized and perhaps mirrored; for evaluation the first
// frames are taken, as the pipeline does, and prepared as its processor says.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/threads/threads.h"
#include "inputs/images/augment.h"
#include "inputs/images/frames/clip.h"
#include "inputs/images/frames/video_file.h"
#include "work/train/metrics/metrics.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/labelled_file_sets.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct LabelledVideo {
  VideoFile file;
  int64_t frames, label;
};

bool may_be_video(const std::filesystem::path& path) { return is_video_name(path) || is_folder_of_frames(path); }

// Each is counted once, so that one that is too short is refused before anything is computed.
std::vector<LabelledVideo> counted_videos(const std::vector<LabelledFiles::File>& files, int64_t frames) {
  std::vector<LabelledVideo> videos;
  for (const LabelledFiles::File& file : files) videos.push_back({VideoFile(file.path), 0, file.label});
  parallel_for(videos.size(), [&](size_t i) {
    LabelledVideo& video = videos[i];
    video.frames = video.file.count();
    if (video.frames < frames)
      fail("{}: has {} frames: expected at least {} (num_frames of the model)", video.file.path().string(),
           video.frames, frames);
  });
  return videos;
}

struct Videos {
  std::vector<LabelledVideo> videos;
  ImageProcessor processor;
  int64_t frames;  // of each that the model sees

  // pixel_values of the rows, on all threads: the frames from begin(video, place in the batch) on, each made by
  // change(frame, place).
  template <typename Begin, typename Change>
  void fill(Batch& batch, const std::vector<int64_t>& rows, const Begin& begin, const Change& change) const {
    std::vector<Clip> clips(rows.size());
    parallel_for(rows.size(), [&](size_t i) {
      const LabelledVideo& video = videos[static_cast<size_t>(rows[i])];
      const std::string where = video.file.path().string();
      std::vector<int64_t> places = sampled_frames(frames, 1);
      for (const int64_t first = begin(video, i); int64_t & place : places) place += first;
      if (video.file.frames(places, [&](const Image& frame) { clips[i].add(change(frame, i), where); }) < frames)
        fail("{}: has fewer frames than at first", where);
    });
    FloatRows& pixels = batch.arrays["pixel_values"];
    const Clip& one = clips[0];
    pixels.shape = {static_cast<int64_t>(rows.size()), frames, 3, one.height, one.width};
    for (size_t i = 0; i < clips.size(); ++i) {
      if (!clips[i].is_like(one))
        fail("{}: its frames become {} x {} pixels, and others {} x {}: expected a processor that makes one size",
             videos[static_cast<size_t>(rows[i])].file.path().string(), clips[i].width, clips[i].height, one.width,
             one.height);
      pixels.values.insert(pixels.values.end(), clips[i].values.begin(), clips[i].values.end());
    }
  }
  std::vector<int64_t> labels_of(const std::vector<int64_t>& rows) const {
    std::vector<int64_t> labels;
    for (const int64_t row : rows) labels.push_back(videos[static_cast<size_t>(row)].label);
    return labels;
  }
};

TrainingData videos_for_evaluation(std::shared_ptr<const Videos> videos) {
  TrainingData data;
  data.rows = static_cast<int64_t>(videos->videos.size());
  data.batch = [videos](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.labels = videos->labels_of(rows);
    videos->fill(
        batch, rows, [](const LabelledVideo&, size_t) { return int64_t{0}; },
        [&](const Image& frame, size_t) { return videos->processor(frame); });
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData videos_for_training(std::shared_ptr<const Videos> videos, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(videos->videos.size());
  data.batch = [videos](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.labels = videos->labels_of(rows);
    batch.numbers[kRows] = rows;
    return batch;
  };
  data.augment = [videos, size = videos->processor.training_size(), seed = arguments.training.seed,
                  area = arguments.script.random_crop_area,
                  flip = arguments.script.random_flip](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    videos->fill(
        batch, rows,
        [&](const LabelledVideo& video, size_t place) {
          return random_of_row(seed, draw, place).randint(video.frames - videos->frames + 1);
        },
        [&](const Image& frame, size_t place) {
          Mt19937 random = random_of_row(seed, draw, place);  // of each frame the same
          random.uniform();                                   // which begin() has used
          const Image cut = random_resized_crop(frame, size[0], size[1], Resampling::kBilinear, random, area);
          return videos->processor.normalized(flip ? random_flip(cut, random) : cut);
        });
  };
  return data;
}

}  // namespace

void prepare_video_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const std::filesystem::path directory = arguments.script.model_name_or_path;
  const std::filesystem::path preprocessor = arguments.script.image_processor_name.value_or(directory.string());
  const LabelledFileSets sets =
      labelled_file_sets(arguments, files, {may_be_video, "videos", kVideoColumn, visible_videos});
  expect_metric(MetricKind::kClasses, arguments.script.metric_name);
  setup.metric_names = metric_names(MetricKind::kClasses, {}, arguments.script.metric_name);
  LoadOptions options = load_options(arguments, "video-classification");
  options.labels = sets.new_labels;
  setup.reads = sets.reads;
  setup.model = load_model(arguments, directory.string(), options);

  const int64_t frames = setup.model->config().get_int("num_frames");
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  const auto videos_of = [&](const LabelledFiles& set) {
    return std::make_shared<Videos>(Videos{counted_videos(set.files, frames), processor, frames});
  };
  if (sets.train) setup.train = videos_for_training(videos_of(*sets.train), arguments);
  if (sets.validation) setup.validation = videos_for_evaluation(videos_of(*sets.validation));
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
