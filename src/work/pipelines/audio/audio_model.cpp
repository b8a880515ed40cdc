// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/audio_model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/threads/prefetcher.h"
#include "base/threads/threads.h"
#include "files/hub/resolve.h"
#include "models/loading/weights/missing_weights.h"

namespace transom {

AudioModel AudioModel::load(const std::string& directory, const LoadOptions& options) {
  return {load_trained(directory, options), FeatureExtractor::read(directory_of_model(directory))};
}

namespace {

struct SoundReader {
  Sound operator()(const std::string& path) const { return read_sound(path); }
  Sound operator()(const FileBytes& file) const {
    return parse_sound(std::as_bytes(std::span(file.bytes)), "the input");
  }
  Sound operator()(const Waveform& wave) const {
    const auto channels = static_cast<size_t>(std::max<int64_t>(wave.channels, 0));
    if (channels == 0 || wave.samples.empty() || wave.samples.size() % channels != 0)
      fail("a sound: expected samples of all channels at each moment, found {} samples of {} channels",
           wave.samples.size(), wave.channels);
    Sound sound{.samples = {}, .sampling_rate = wave.sampling_rate};
    for (size_t begin = 0; begin < wave.samples.size(); begin += channels) {
      float sum = 0;
      for (size_t channel = 0; channel < channels; ++channel) sum += wave.samples[begin + channel];
      sound.samples.push_back(sum / static_cast<float>(channels));
    }
    return sound;
  }
};

}  // namespace

Sound sound_of(const TaskInput& input, int64_t sampling_rate) {
  return resampled(std::visit(SoundReader(), sound_input(input).source), sampling_rate);
}

std::vector<TaskResult> answers_to_sounds(
    const std::vector<TaskInput>& inputs, int64_t sampling_rate, int64_t batch_size,
    const std::function<std::vector<TaskResult>(const std::vector<Sound>&)>& answer) {
  const auto count = static_cast<int64_t>(inputs.size());
  batch_size = std::clamp<int64_t>(batch_size, 1, std::max<int64_t>(count, 1));
  Prefetcher<std::vector<Sound>> batches((count + batch_size - 1) / batch_size, [&](int64_t number) {
    const int64_t first = number * batch_size;
    std::vector<Sound> sounds(static_cast<size_t>(std::min(batch_size, count - first)));
    parallel_for(sounds.size(),
                 [&](size_t i) { sounds[i] = sound_of(inputs[static_cast<size_t>(first) + i], sampling_rate); });
    return sounds;
  });
  std::vector<TaskResult> results;
  while (batches.left() > 0)
    for (TaskResult& result : answer(batches.next())) results.push_back(std::move(result));
  return results;
}

std::vector<AudioModel::Row> AudioModel::rows(const std::vector<Sound>& sounds, const std::string& name,
                                              int64_t batch_size) const {
  const NoGradient inference;
  std::vector<Row> result(sounds.size());
  // One sound has no padding, so that no mask is needed.
  std::map<std::vector<int64_t>, std::vector<size_t>> of_one_length;
  std::vector<AudioFeatures> features(sounds.size());
  const auto run = [&](std::vector<size_t>& batch) {
    std::vector<float> values;
    for (const size_t i : batch) {
      values.insert(values.end(), features[i].values.begin(), features[i].values.end());
      features[i].values = {};
    }
    Shape shape = features[batch[0]].shape;
    shape[0] = static_cast<int64_t>(batch.size());
    const Tensor output = model->forward({{features[batch[0]].name, Tensor::from(values, shape)}}).at(name);
    const std::vector<float> all = output.to_vector<float>();
    Shape row_shape = output.shape();
    row_shape[0] = 1;
    auto row = all.begin();
    for (const size_t i : batch) {
      result[i] = {row_shape, {row, row + elements(row_shape)}};
      row += elements(row_shape);
    }
    batch.clear();
  };
  for (size_t i = 0; i < sounds.size(); ++i) {
    features[i] = (*extractor)(std::span(&sounds[i], 1));
    std::vector<size_t>& batch = of_one_length[features[i].shape];
    batch.push_back(i);
    if (static_cast<int64_t>(batch.size()) >= batch_size) run(batch);
  }
  for (auto& [shape, batch] : of_one_length)
    if (!batch.empty()) run(batch);
  return result;
}

}  // namespace transom
