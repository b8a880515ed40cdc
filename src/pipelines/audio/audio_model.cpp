// SPDX-License-Identifier: Apache-2.0
#include "pipelines/audio/audio_model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "base/threads/prefetcher.h"
#include "base/threads/threads.h"
#include "hub/resolve.h"
#include "models/loading/missing_weights.h"

namespace transom {

AudioModel AudioModel::load(const std::string& directory, const LoadOptions& options) {
  return {load_trained(directory, options), FeatureExtractor::read(directory_of_model(directory))};
}

Sound sound_of(const Json& input, int64_t sampling_rate) {
  if (const auto bytes = bytes_input(input, "raw")) return resampled(parse_sound(*bytes, "the input"), sampling_rate);
  if (input.is_string()) return resampled(read_sound(input.get<std::string>()), sampling_rate);
  const char* field = input.is_object() && input.contains("raw") ? "raw" : "array";
  if (!input.is_object() || !input.contains(field) || !input[field].is_array() || !input.contains("sampling_rate") ||
      !input["sampling_rate"].is_number_integer())
    fail("expected the path of a sound, or an object with \"array\" and \"sampling_rate\"; found {}",
         quoted(dump_json(input).substr(0, 80)));
  Sound sound;
  sound.sampling_rate = input["sampling_rate"].get<int64_t>();
  for (const Json& sample : input[field]) {
    if (!sample.is_number()) fail("{}: expected numbers, one a sample of one channel", field);
    sound.samples.push_back(sample.get<float>());
  }
  if (sound.samples.empty()) fail("{}: the sound is empty", field);
  return resampled(sound, sampling_rate);
}

std::vector<Json> answers_to_sounds(const std::vector<Json>& inputs, int64_t sampling_rate, int64_t batch_size,
                                    const std::function<std::vector<Json>(const std::vector<Sound>&)>& answer) {
  const auto count = static_cast<int64_t>(inputs.size());
  batch_size = std::clamp<int64_t>(batch_size, 1, std::max<int64_t>(count, 1));
  Prefetcher<std::vector<Sound>> batches((count + batch_size - 1) / batch_size, [&](int64_t number) {
    const int64_t first = number * batch_size;
    std::vector<Sound> sounds(static_cast<size_t>(std::min(batch_size, count - first)));
    parallel_for(sounds.size(),
                 [&](size_t i) { sounds[i] = sound_of(inputs[static_cast<size_t>(first) + i], sampling_rate); });
    return sounds;
  });
  std::vector<Json> results;
  while (batches.left() > 0)
    for (Json& result : answer(batches.next())) results.push_back(std::move(result));
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
