// SPDX-License-Identifier: Apache-2.0
// What the tasks on sounds share: a model with its feature extractor, and inputs as sounds.
#pragma once

#include <functional>

#include "audio/feature_extractor.h"
#include "pipelines/pipeline.h"

namespace transom {

// The path of a sound file, or {"array": [...], "sampling_rate": n} ("raw" is another name for "array"), at the given
// sampling rate.
Sound sound_of(const Json& input, int64_t sampling_rate);

// answer(sound) of each input, in their order. Files are read and resampled while the sounds before are answered.
std::vector<Json> answers_to_sounds(const std::vector<Json>& inputs, int64_t sampling_rate,
                                    const std::function<Json(const Sound&)>& answer);

struct AudioModel {
  static AudioModel load(const std::string& directory, const LoadOptions& options);
  // The outputs for one sound.
  NamedTensors operator()(const Sound& sound) const;

  std::unique_ptr<Model> model;
  std::unique_ptr<FeatureExtractor> extractor;
};

}  // namespace transom
