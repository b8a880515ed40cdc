// SPDX-License-Identifier: Apache-2.0
// What the task text-to-speech asks of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transom/tensor.h"

namespace transom {

class Vocoder;

// One text, with how it is to be spoken. What a model has no use for it refuses by its name.
struct SpeechRequest {
  std::vector<int64_t> ids;        // of its tokens
  uint64_t seed = 0;               // of the noise, as torch.manual_seed takes it
  double speed = 1;                // a factor
  std::optional<int64_t> speaker;  // a number of the model's own voices
  std::optional<double> noise_scale, noise_scale_duration;
  std::vector<float> voice;                 // a vector that tells whose voice speaks; empty: none
  double threshold = 0.5;                   // how sure it is to be that the text has ended
  double least_steps = 0, most_steps = 20;  // for each token of the text
  const Vocoder* vocoder = nullptr;         // makes samples of spectra, where another model does
};

class SpeakingModel {
 public:
  virtual ~SpeakingModel() = default;
  virtual int64_t sampling_rate() const = 0;
  virtual int64_t speakers() const { return 1; }
  virtual int64_t most_tokens() const { return 0; }  // of a text at once; 0: any number
  // Whether it makes spectra and ends by itself: SpeechRequest::voice and what follows it are then its own, and of the
  // noise it has the seed alone.
  virtual bool makes_spectra() const { return false; }
  // The samples of one channel.
  virtual std::vector<float> speak(const SpeechRequest& request) const = 0;
};

// A model that makes samples of spectra, for one that speaks in them.
class Vocoder {
 public:
  virtual ~Vocoder() = default;
  virtual int64_t sampling_rate() const = 0;
  // Of a spectrum [frames, bands].
  virtual std::vector<float> samples(const Tensor& spectrum) const = 0;
};

}  // namespace transom
