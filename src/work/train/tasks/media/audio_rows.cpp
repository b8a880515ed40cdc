// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/audio_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/threads.h"

namespace transom {

Sound SoundRows::read(size_t file) const { return resampled(read_sound(files.at(file)), extractor->sampling_rate()); }

void SoundRows::fill(Batch& batch, const std::vector<int64_t>& rows,
                     const std::function<Sound(Sound&&, size_t)>& change) const {
  std::vector<AudioFeatures> features(rows.size());
  parallel_for(rows.size(), [&](size_t i) {
    Sound sound = read(static_cast<size_t>(rows[i]));
    if (change) sound = change(std::move(sound), i);
    features[i] = (*extractor)(std::span(&sound, 1));
  });
  // [1, samples] or, of one length each, [1, bins, frames].
  const bool waves = features[0].shape.size() == 2;
  PaddingOptions padding;
  padding.multiple_of = multiple_of;
  int64_t longest = 0;
  for (const AudioFeatures& row : features) longest = std::max(longest, static_cast<int64_t>(row.values.size()));
  const int64_t length = waves ? padded_length(longest, padding) : longest;

  FloatRows& values = batch.arrays[features[0].name];
  values.shape = features[0].shape;
  values.shape[0] = static_cast<int64_t>(rows.size());
  if (waves) values.shape[1] = length;
  const bool masked = waves && attention_mask.value_or(!features[0].attention_mask.empty());
  std::vector<std::vector<int64_t>> ones;
  for (const AudioFeatures& row : features) {
    values.values.insert(values.values.end(), row.values.begin(), row.values.end());
    values.values.insert(values.values.end(), static_cast<size_t>(length) - row.values.size(),
                         extractor->padding_value());
    ones.emplace_back(row.values.size(), 1);
  }
  if (!masked) return;
  std::vector<const std::vector<int64_t>*> masks;
  for (const auto& row : ones) masks.push_back(&row);
  batch.sequences["attention_mask"] = pad(masks, length, 0, false);
}

}  // namespace transom
