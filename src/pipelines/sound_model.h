// SPDX-License-Identifier: Apache-2.0
// What the tasks on sounds share: a model with its feature extractor, and inputs as sounds.
#pragma once

#include "audio/feature_extractor.h"
#include "pipelines/pipeline.h"

namespace transom {

// The path of a sound file, or {"array": [...], "sampling_rate": n} ("raw" is another name for "array"), at the given
// sampling rate.
Sound sound_of(const Json& input, int64_t sampling_rate);

struct SoundModel {
  static SoundModel load(const std::string& directory, const LoadOptions& options);
  // At the extractor's sampling rate.
  Sound sound(const Json& input) const { return sound_of(input, extractor->sampling_rate()); }
  // The outputs for one sound.
  NamedTensors operator()(const Sound& sound) const;

  std::unique_ptr<Model> model;
  std::unique_ptr<FeatureExtractor> extractor;
};

}  // namespace transom
