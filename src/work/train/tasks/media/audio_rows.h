// SPDX-License-Identifier: Apache-2.0
// Sound files as rows of a speech model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "inputs/audio/feature_extractor.h"
#include "inputs/data/text/padding.h"

namespace transom {

struct SoundRows {
  std::vector<std::filesystem::path> files;
  std::shared_ptr<const FeatureExtractor> extractor;
  std::optional<bool> attention_mask;  // whether batches have one; by default as the extractor says
  std::optional<int64_t> multiple_of;  // samples

  // At the extractor's sampling rate.
  Sound read(size_t file) const;
  // What the model takes of the rows: each sound by itself, as the example scripts do it, then padded to the longest.
  // `change` makes of a sound and its place in the batch what is trained on.
  void fill(Batch& batch, const std::vector<int64_t>& rows,
            const std::function<Sound(Sound&& sound, size_t place)>& change = {}) const;
};

}  // namespace transom
