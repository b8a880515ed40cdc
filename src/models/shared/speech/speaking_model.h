// SPDX-License-Identifier: Apache-2.0
// What the task text-to-speech asks of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace transom {

// One text, with how it is to be spoken. What a model has no use for it refuses by its name.
struct SpeechRequest {
  std::vector<int64_t> ids;        // of its tokens
  uint64_t seed = 0;               // of the noise, as torch.manual_seed takes it
  double speed = 1;                // a factor
  std::optional<int64_t> speaker;  // a number of the model's own voices
  std::optional<double> noise_scale, noise_scale_duration;
};

class SpeakingModel {
 public:
  virtual ~SpeakingModel() = default;
  virtual int64_t sampling_rate() const = 0;
  virtual int64_t speakers() const { return 1; }
  // The samples of one channel.
  virtual std::vector<float> speak(const SpeechRequest& request) const = 0;
};

}  // namespace transom
