// SPDX-License-Identifier: Apache-2.0
// VITS (Kim et al., 2021) and MMS-TTS: from characters or phonemes to samples in one pass. How long each token is said
// is read on the way, since it decides how long the sound is. B batch, T tokens, S frames, F channels of the flow.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "graph/ir/node.h"
#include "models/families/vits/vits_parts.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/shared/speech/hifi_gan.h"
#include "models/shared/speech/speaking_model.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostFramesOfVits = 1 << 18;  // of a row: more than an hour of most models
constexpr double kSlowest = 1e-3, kFastest = 1e3;

// The noise of torch's generator in the order in which Transformers draws it.
class VitsNoise {
 public:
  VitsNoise(uint64_t seed, double scale, double scale_of_durations)
      : generator_(seed), scale_(scale), scale_of_durations_(scale_of_durations) {}

  // [B, 2, T]
  Tensor of_durations(int64_t B, int64_t T, DType dtype) {
    std::vector<float> values(static_cast<size_t>(B * 2 * T));
    generator_.fill_normal(values);
    return cast(Tensor::from(values, {B, 2, T}), dtype) * scale_of_durations_;
  }
  // [B, F, S]. There the tensor lies turned, [B, S, F], and its numbers are drawn one by one.
  Tensor of_frames(int64_t B, int64_t F, int64_t S, DType dtype) {
    std::vector<float> values(static_cast<size_t>(B * F * S));
    if (S == 1) generator_.fill_normal(values);
    else generator_.fill_normal_one_by_one(values);
    return permute(cast(Tensor::from(values, {B, S, F}), dtype), {0, 2, 1}) * scale_;
  }

 private:
  Mt19937 generator_;
  double scale_, scale_of_durations_;
};

// Which token each frame is of, and how many frames a row has.
struct VitsAlignment {
  std::vector<int64_t> tokens;  // [B, S], numbers of all B T tokens
  std::vector<int64_t> lengths;
  int64_t frames = 1;  // S
};

VitsAlignment alignment_of(const std::vector<float>& durations, int64_t B, int64_t T) {
  VitsAlignment alignment;
  for (int64_t b = 0; b < B; ++b) {
    double sum = 0;
    for (int64_t t = 0; t < T; ++t) sum += static_cast<double>(durations[static_cast<size_t>(b * T + t)]);
    if (!(sum <= static_cast<double>(kMostFramesOfVits)))
      fail("VITS: expected at most {} frames of a text, found durations of {}; give shorter texts, or a higher speed",
           kMostFramesOfVits, sum);
    alignment.lengths.push_back(std::max<int64_t>(static_cast<int64_t>(sum), 1));
    alignment.frames = std::max(alignment.frames, alignment.lengths.back());
  }
  if (B > kMostFramesOfVits / alignment.frames)
    fail("VITS: expected at most {} frames of a batch, found {} rows of {}", kMostFramesOfVits, B, alignment.frames);
  for (int64_t b = 0; b < B; ++b) {
    const size_t end = alignment.tokens.size() + static_cast<size_t>(alignment.frames);
    for (int64_t t = 0; t < T; ++t)
      alignment.tokens.insert(alignment.tokens.end(), static_cast<size_t>(durations[static_cast<size_t>(b * T + t)]),
                              b * T + t);
    alignment.tokens.resize(end, b * T);
  }
  return alignment;
}

class VitsModel : public Model, public SpeakingModel {
 public:
  VitsModel(const Config& config, const Scope& scope)
      : c_(config),
        text_encoder_(scope / "text_encoder", c_),
        flow_(scope / "flow", c_),
        decoder_(scope / "decoder", c_.decoder),
        duration_predictor_(scope / "duration_predictor", c_) {
    if (c_.num_speakers > 1)
      embed_speaker_.emplace(scope / "embed_speaker", c_.num_speakers, c_.speaker_embedding_size, c_.initializer_range);
    posterior_encoder_.emplace(scope / "posterior_encoder", c_);
  }

  int64_t sampling_rate() const override { return c_.sampling_rate; }
  int64_t speakers() const override { return c_.num_speakers; }
  std::vector<float> speak(const SpeechRequest& request) const override {
    if (request.ids.empty()) fail("VITS: expected at least one token of the text");
    for (const int64_t id : request.ids)
      if (id < 0 || id >= c_.vocab_size)
        fail("VITS: expected tokens from 0 to {}, found {}: the tokenizer is of another model", c_.vocab_size - 1, id);
    const NoGradient inference;
    ForwardContext context;
    prepare(context);
    const auto T = static_cast<int64_t>(request.ids.size());
    const Tensor speaker = request.speaker ? Tensor::from(std::vector<int64_t>{*request.speaker}, {1}) : Tensor();
    VitsNoise noise(request.seed, request.noise_scale.value_or(c_.noise_scale),
                    request.noise_scale_duration.value_or(c_.noise_scale_duration));
    const NamedTensors sound =
        sound_of(Tensor::from(request.ids, {1, T}), {}, speaker, c_.speaking_rate * request.speed, noise, context);
    return cast(sound.at("waveform"), DType::kFloat32).to_vector<float>();
  }

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "speaker_id", "speaking_rate", "seed"};
  }
  bool is_one_program() const override { return false; }

  // `seed` (0 where there is none) is that of torch.manual_seed before Transformers' pass.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor rate = inputs.find("speaking_rate"), seed = inputs.find("seed");
    VitsNoise noise(seed.defined() ? static_cast<uint64_t>(cast(seed, DType::kInt64).item<int64_t>()) : 0,
                    c_.noise_scale, c_.noise_scale_duration);
    return sound_of(inputs.at("input_ids"), inputs.find("attention_mask"), inputs.find("speaker_id"),
                    rate.defined() ? static_cast<double>(cast(rate, DType::kFloat32).item<float>()) : c_.speaking_rate,
                    noise, context);
  }

 private:
  NamedTensors sound_of(const Tensor& input_ids, const Tensor& mask, const Tensor& speaker_id, double rate,
                        VitsNoise& noise, ForwardContext& context) const {
    if (input_ids.rank() != 2 || input_ids.dim(1) < 1)
      fail("input_ids: expected [batch, tokens], found {}", to_string(input_ids.shape()));
    if (is_input(*input_ids.node()) && !input_ids.node()->computed(input_ids.output()))
      fail(ErrorKind::kUnsupported,
           "VITS: how long the sound is follows from the text, so that no pass is compiled as a whole; use the mode "
           "lazy");
    if (!(rate >= kSlowest && rate <= kFastest))
      fail("speaking_rate: expected a number from {} to {}, found {}", kSlowest, kFastest, rate);
    const int64_t B = input_ids.dim(0), T = input_ids.dim(1), F = c_.flow_size;
    const Tensor speaker = voice_of(speaker_id, context);
    const DType dtype = text_encoder_.dtype();
    const Tensor counted = mask.defined() ? cast(unsqueeze(mask, 1), dtype) : full({B, 1, T}, 1, dtype);  // [B, 1, T]
    const VitsText text = text_encoder_(input_ids, counted, additive_mask(mask), context);

    const Tensor drawn = c_.stochastic_durations ? noise.of_durations(B, T, dtype) : Tensor();
    const Tensor logarithms = duration_predictor_(text.hidden, counted, speaker, drawn, context);
    const Tensor durations = ceil(exp(cast(logarithms, DType::kFloat32)) * cast(counted, DType::kFloat32) * (1 / rate));
    const VitsAlignment aligned = alignment_of(durations.detach().to_vector<float>(), B, T);

    const int64_t S = aligned.frames;
    const Tensor lengths = Tensor::from(aligned.lengths, {B});
    const Tensor sounding = cast(less(iota({B, 1, S}, 2), broadcast_to(reshape(lengths, {B, 1, 1}), {B, 1, S})), dtype);
    const Tensor places = Tensor::from(aligned.tokens, {B * S});
    const auto of_frames = [&](const Tensor& of_tokens) {
      const Tensor rows = reshape(permute(of_tokens, {0, 2, 1}), {B * T, F});
      return permute(reshape(gather(rows, places, 0), {B, S, F}), {0, 2, 1}) * sounding;
    };
    const Tensor prior = of_frames(text.means) + noise.of_frames(B, F, S, dtype) * exp(of_frames(text.log_variances));
    const Tensor spectrogram = flow_.backwards(prior, sounding, speaker, context) * sounding;
    return {{"waveform", decoder_(spectrogram, speaker, context)},
            {"sequence_lengths", lengths * static_cast<double>(c_.decoder.samples_per_frame())},
            {"spectrogram", spectrogram}};
  }

  // [B or 1, E, 1]; empty: the voice of a model with one, or of none.
  Tensor voice_of(const Tensor& speaker_id, const ForwardContext& context) const {
    if (!speaker_id.defined() || !embed_speaker_) return {};
    const std::vector<int64_t> numbers = cast(speaker_id, DType::kInt64).to_vector<int64_t>();
    for (const int64_t number : numbers)
      if (number < 0 || number >= c_.num_speakers)
        fail("speaker_id: expected a number from 0 to {}, found {}", c_.num_speakers - 1, number);
    return unsqueeze((*embed_speaker_)(reshape(speaker_id, {static_cast<int64_t>(numbers.size())}), context), 2);
  }

  VitsConfig c_;
  VitsTextEncoder text_encoder_;
  VitsFlow flow_;
  HifiGan decoder_;
  VitsDurations duration_predictor_;
  std::optional<Embedding> embed_speaker_;
  std::optional<VitsPosterior> posterior_encoder_;
};

}  // namespace

static Family vits_family() {
  return {.model_type = "vits",
          .base_prefix = "vits",
          .architectures = {{"VitsModel",
                             {.task = HeadTask::kSpeech,
                              .pipelines = {"text-to-audio"},
                              .labels = HeadLabels::kNone,
                              .modules = none,
                              .vocabulary = none,
                              .outputs = {"waveform", "sequence_lengths", "spectrogram"}},
                             make_model<VitsModel>}},
          .inputs = text_inputs(),
          .processors =
              {.tokenizer = "Vits", .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kVitsFamily{vits_family};

}  // namespace transom
