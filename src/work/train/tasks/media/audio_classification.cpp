// SPDX-License-Identifier: Apache-2.0
// run_audio_classification: sounds in one folder a class, or named in a table. For training a random part of those that
// are longer than max_length_seconds is taken; evaluation hears the whole.
#include <algorithm>

#include "base/numbers/mt19937.h"
#include "work/train/metrics/metrics.h"
#include "work/train/setup/freeze.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/labelled_file_sets.h"
#include "work/train/tasks/media/audio_rows.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct LabelledSounds {
  SoundRows sounds;
  std::vector<int64_t> labels;

  LabelledSounds(const LabelledFiles& set, SoundRows rows) : sounds(std::move(rows)) {
    for (const LabelledFiles::File& file : set.files) {
      sounds.files.push_back(file.path);
      labels.push_back(file.label);
    }
  }
  Batch labels_of(const std::vector<int64_t>& rows) const {
    Batch batch;
    for (const int64_t row : rows) batch.labels.push_back(labels[static_cast<size_t>(row)]);
    return batch;
  }
};

TrainingData sounds_for_evaluation(std::shared_ptr<const LabelledSounds> data) {
  TrainingData result;
  result.rows = static_cast<int64_t>(data->labels.size());
  result.batch = [data](const std::vector<int64_t>& rows) {
    Batch batch = data->labels_of(rows);
    data->sounds.fill(batch, rows);
    return batch;
  };
  return result;
}

// A batch is its rows' numbers until the draw is known.
TrainingData sounds_for_training(std::shared_ptr<const LabelledSounds> data, double seconds, int64_t seed) {
  constexpr const char* kRows = "rows";
  TrainingData result;
  result.rows = static_cast<int64_t>(data->labels.size());
  result.batch = [data](const std::vector<int64_t>& rows) {
    Batch batch = data->labels_of(rows);
    batch.numbers[kRows] = rows;
    return batch;
  };
  result.augment = [data, seconds, seed](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    data->sounds.fill(batch, rows, [&](Sound&& sound, size_t place) {
      const auto most = static_cast<int64_t>(seconds * static_cast<double>(sound.sampling_rate));
      const int64_t spare = static_cast<int64_t>(sound.samples.size()) - most;
      if (spare <= 0) return std::move(sound);
      Mt19937 random = random_of_row(seed, draw, place);
      const auto begin = sound.samples.begin() + random.randint(spare);
      return Sound{{begin, begin + most}, sound.sampling_rate};
    });
  };
  return result;
}

}  // namespace

void prepare_audio_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const std::filesystem::path preprocessor = script.feature_extractor_name.value_or(directory.string());
  const LabelledFileSets sets =
      labelled_file_sets(arguments, files, {is_sound_name, "sounds", script.audio_column_name});
  expect_metric(MetricKind::kClasses, arguments.script.metric_name);
  setup.metric_names = metric_names(MetricKind::kClasses, {}, arguments.script.metric_name);
  LoadOptions options = load_options(arguments, "audio-classification");
  options.labels = sets.new_labels;
  setup.reads = sets.reads;
  setup.model = load_model(arguments, directory.string(), options);
  if (script.freeze_feature_encoder) freeze_feature_encoder(*setup.model);

  const SoundRows rows{{}, FeatureExtractor::read(preprocessor), script.attention_mask, script.pad_to_multiple_of};
  if (sets.train)
    setup.train = sounds_for_training(std::make_shared<LabelledSounds>(*sets.train, rows), script.max_length_seconds,
                                      arguments.training.seed);
  if (sets.validation)
    setup.validation = sounds_for_evaluation(std::make_shared<LabelledSounds>(*sets.validation, rows));
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
