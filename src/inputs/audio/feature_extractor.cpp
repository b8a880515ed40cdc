// SPDX-License-Identifier: Apache-2.0
// The wave itself, for Wav2Vec2 and its like; which extractor a directory asks for.
#include "inputs/audio/feature_extractor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/known_keys.h"
#include "inputs/audio/ast_features.h"
#include "inputs/audio/clap_features.h"
#include "inputs/audio/whisper_features.h"

namespace transom {
namespace {

// The samples, if asked for with mean 0 and variance 1 over what counts.
class WaveExtractor : public FeatureExtractor {
 public:
  explicit WaveExtractor(const Config& config)
      : do_normalize_(config.get_bool("do_normalize", true)),
        return_attention_mask_(config.get_bool("return_attention_mask", false)) {
    padding_value_ = static_cast<float>(config.get_float("padding_value", 0));
    sampling_rate_ = config.get_int("sampling_rate", 16000);
    if (config.get_int("feature_size", 1) != 1)
      fail("{}: feature_size {} is not carried out; only 1 is", config.where(), config.get_int("feature_size", 1));
    if (config.get_string("padding_side", "right") != "right")
      fail("{}: padding_side {} is not carried out; only right is", config.where(),
           quoted(config.get_string("padding_side", "")));
  }

  AudioFeatures operator()(std::span<const Sound> sounds) const override {
    size_t longest = 0;
    for (const Sound& sound : sounds) longest = std::max(longest, sound.samples.size());
    AudioFeatures result{"input_values", {static_cast<int64_t>(sounds.size()), static_cast<int64_t>(longest)}, {}, {}};
    for (const Sound& sound : sounds) {
      std::vector<float> row = sound.samples;
      // Models that know no mask have seen padding as silence of the sound, and normalise over it.
      const size_t counted = return_attention_mask_ ? row.size() : longest;
      row.resize(longest, padding_value_);
      if (do_normalize_) normalize(std::span(row).first(counted));
      result.values.insert(result.values.end(), row.begin(), row.end());
      if (!return_attention_mask_) continue;
      result.attention_mask.insert(result.attention_mask.end(), counted, 1);
      result.attention_mask.insert(result.attention_mask.end(), longest - counted, 0);
    }
    return result;
  }

 private:
  static void normalize(std::span<float> x) {
    double mean = 0, variance = 0;
    for (const float value : x) mean += value;
    mean /= static_cast<double>(x.size());
    for (const float value : x) variance += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(variance / static_cast<double>(x.size()) + 1e-7);
    for (float& value : x) value = static_cast<float>((value - mean) * scale);
  }

  bool do_normalize_, return_attention_mask_;
};

}  // namespace

std::unique_ptr<FeatureExtractor> FeatureExtractor::read(const std::filesystem::path& directory) {
  const Config config = Config::read(directory / "preprocessor_config.json");
  const std::string type = config.get_string("feature_extractor_type", "");
  std::unique_ptr<FeatureExtractor> extractor;
  if (type == "Wav2Vec2FeatureExtractor") extractor = std::make_unique<WaveExtractor>(config);
  if (type == "WhisperFeatureExtractor") extractor = whisper_features(config);
  if (type == "ASTFeatureExtractor") extractor = ast_features(config);
  if (type == "ClapFeatureExtractor") extractor = clap_features(config);
  if (!extractor)
    fail("{}: feature_extractor_type: expected that of Wav2Vec2, Whisper, AST or Clap, found {}", config.where(),
         quoted(type));
  constexpr KnownKey kKeys[] = {{"processor_class"},
                                {"auto_map"},
                                {"n_samples"},
                                {"nb_max_frames"},
                                {"padding_side", "\"right\""},
                                {"return_attention_mask"},
                                {"mel_filters"},
                                {"return_tensors"},
                                {"feature_size"},
                                {"transformers_version"},
                                {"use_fast"},
                                {"do_normalize"},
                                {"num_mel_bins"},
                                {"preemphasis", "0"},
                                {"padding_value"},  // of AST and CLAP, which fill sounds up with nothing
                                // Of CLAP: what follows from other fields, and what nothing reads.
                                {"nb_max_samples"},
                                {"nb_frequency_bins"},
                                {"top_db"}};
  check_known_keys(json_of(config), config.where(), kKeys,
                   [&](const std::string& key) { return was_read(config, key); });
  if (extractor->sampling_rate() < 1)
    fail("{}: sampling_rate: expected a positive number, found {}", config.where(), extractor->sampling_rate());
  return extractor;
}

}  // namespace transom
