// SPDX-License-Identifier: Apache-2.0
#include "pipelines/audio_model.h"

#include "base/error.h"
#include "base/json.h"
#include "base/prefetcher.h"

namespace transom {

AudioModel AudioModel::load(const std::string& directory, const LoadOptions& options) {
  return {Model::from_pretrained(directory, options), FeatureExtractor::read(directory)};
}

Sound sound_of(const Json& input, int64_t sampling_rate) {
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

std::vector<Json> answers_to_sounds(const std::vector<Json>& inputs, int64_t sampling_rate,
                                    const std::function<Json(const Sound&)>& answer) {
  Prefetcher<Sound> sounds(static_cast<int64_t>(inputs.size()),
                          [&](int64_t i) { return sound_of(inputs[static_cast<size_t>(i)], sampling_rate); });
  std::vector<Json> results;
  while (sounds.left() > 0) results.push_back(answer(sounds.next()));
  return results;
}

NamedTensors AudioModel::operator()(const Sound& sound) const {
  const NoGradient inference;
  // One sound has no padding, so that no mask is needed.
  const AudioFeatures features = (*extractor)(std::span(&sound, 1));
  return model->forward({{features.name, Tensor::from(features.values, features.shape)}});
}

}  // namespace transom
