// SPDX-License-Identifier: Apache-2.0
// What the tasks on sounds share: a model with its feature extractor, and inputs as sounds.
#pragma once

#include <functional>
#include <vector>

#include "inputs/audio/feature_extractor.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// The sound of an input, its channels' mean, at the given sampling rate.
Sound sound_of(const TaskInput& input, int64_t sampling_rate);

// answer(sounds) of each `batch_size` inputs, in their order; it returns one result a sound. Files are read and
// resampled while the sounds before are answered.
std::vector<TaskResult> answers_to_sounds(
    const std::vector<TaskInput>& inputs, int64_t sampling_rate, int64_t batch_size,
    const std::function<std::vector<TaskResult>(const std::vector<Sound>&)>& answer);

struct AudioModel {
  static AudioModel load(const std::string& directory, const LoadOptions& options);

  // The part of the output `name` that belongs to a sound: [1, ...].
  struct Row {
    Shape shape;
    std::vector<float> values;
  };
  // Of each sound. At most `batch_size` sounds go through the model at once, and only sounds of one length together:
  // padding would change their numbers.
  std::vector<Row> rows(const std::vector<Sound>& sounds, const std::string& name, int64_t batch_size) const;

  std::unique_ptr<Model> model;
  std::unique_ptr<FeatureExtractor> extractor;
};

}  // namespace transom
