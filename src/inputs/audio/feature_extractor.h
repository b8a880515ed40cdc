// SPDX-License-Identifier: Apache-2.0
// What a speech model is fed: the feature extractor that a checkpoint's preprocessor_config.json describes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "inputs/audio/sound.h"

namespace transom {

struct AudioFeatures {
  std::string name;                     // of the model's argument: input_values or input_features
  std::vector<int64_t> shape;           // [rows, samples] or [rows, mel bins, frames]
  std::vector<float> values;            // row-major
  std::vector<int64_t> attention_mask;  // [rows, samples], or empty where the model takes none
};

class FeatureExtractor {
 public:
  virtual ~FeatureExtractor() = default;
  // Of a model's directory. Refuses extractors that it does not know, and options that it does not carry out.
  static std::unique_ptr<FeatureExtractor> read(const std::filesystem::path& directory);
  // Sounds at the extractor's sampling rate, as a batch padded to one length.
  virtual AudioFeatures operator()(std::span<const Sound> sounds) const = 0;
  // One sound in its own length, also where operator() cuts it.
  virtual AudioFeatures whole(const Sound& sound) const { return (*this)(std::span(&sound, 1)); }

  int64_t sampling_rate() const { return sampling_rate_; }
  // The length that every sound is cut or padded to, in samples; 0: sounds have their own lengths.
  int64_t fixed_length() const { return fixed_length_; }
  // What shorter sounds of a batch are filled up with.
  float padding_value() const { return padding_value_; }

 protected:
  int64_t sampling_rate_ = 16000, fixed_length_ = 0;
  float padding_value_ = 0;
};

}  // namespace transom
