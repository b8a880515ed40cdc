// SPDX-License-Identifier: Apache-2.0
// SpeechT5 (Ao et al., 2022): from characters to a spectrum, step by step, of which a vocoder makes a sound.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/families/speecht5/speecht5_speech.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/attention/cache.h"
#include "models/shared/speech/speaking_model.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

class SpeechT5ForTextToSpeech : public Model, public SpeakingModel {
 public:
  SpeechT5ForTextToSpeech(const Config& config, const Scope& scope)
      : c_(config),
        text_prenet_(scope / "speecht5" / "encoder" / "prenet", c_),
        encoder_(scope / "speecht5" / "encoder" / "wrapped_encoder", c_),
        prenet_(scope / "speecht5" / "decoder" / "prenet", c_),
        decoder_(scope / "speecht5" / "decoder" / "wrapped_decoder", c_),
        postnet_(scope / "speech_decoder_postnet", c_) {}

  bool makes_spectra() const override { return true; }
  int64_t sampling_rate() const override { return 0; }  // which is the vocoder's
  int64_t most_tokens() const override { return c_.max_text_positions; }
  std::vector<float> speak(const SpeechRequest& request) const override;

 protected:
  std::vector<std::string> input_names() const override {
    return {
        "input_ids", "attention_mask", "decoder_input_values", "decoder_attention_mask", "speaker_embeddings", "labels",
        "seed"};
  }
  // With dropout in the prenet numbers are drawn on the way.
  bool is_one_program() const override { return c_.prenet_dropout == 0; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override;

 private:
  Tensor encoded(const Tensor& input_ids, const Tensor& mask, ForwardContext& context) const {
    if (input_ids.rank() != 2 || input_ids.dim(1) < 1)
      fail("input_ids: expected [batch, tokens], found {}", to_string(input_ids.shape()));
    return encoder_(text_prenet_(input_ids, context), mask, context);
  }
  Tensor spectrum_of(const SpeechRequest& request, ForwardContext& context) const;

  SpeechT5Config c_;
  SpeechT5TextPrenet text_prenet_;
  SpeechT5Encoder encoder_;
  SpeechT5SpeechPrenet prenet_;
  SpeechT5Decoder decoder_;
  SpeechT5Postnet postnet_;
};

// What the decoder reads and, where labels say it, learns.
struct SpeechT5Frames {
  Tensor read, mask;  // [B, T, M] and [B, T] or empty
  Tensor labels;      // [B, T r, M] in f32, or empty
};

SpeechT5Frames speecht5_frames(const SpeechT5Config& c, const NamedTensors& inputs) {
  SpeechT5Frames frames{inputs.find("decoder_input_values"), inputs.find("decoder_attention_mask"),
                        inputs.find("labels")};
  const auto expect = [&](const char* name, const Tensor& x) {
    if (x.rank() != 3 || x.dim(2) != c.num_mel_bins || x.dim(1) < 1)
      fail("{}: expected [batch, frames, {}], found {}", name, c.num_mel_bins, to_string(x.shape()));
  };
  const int64_t r = c.reduction_factor;
  if (frames.labels.defined()) {
    expect("labels", frames.labels);
    if (frames.labels.dim(1) % r != 0)
      fail("labels: expected a multiple of reduction_factor {} frames, found {}", r, frames.labels.dim(1));
    frames.labels = cast(frames.labels, DType::kFloat32);
    if (!frames.read.defined()) {
      frames.read = speecht5_shifted(frames.labels, r);
      if (r > 1 && frames.mask.defined()) frames.mask = slice(frames.mask, 1, r - 1, frames.mask.dim(1), r);
    }
  }
  if (!frames.read.defined()) fail("expected decoder_input_values or labels, of frames of a spectrum");
  expect("decoder_input_values", frames.read);
  if (frames.labels.defined() && frames.labels.dim(1) != frames.read.dim(1) * r)
    fail("labels: expected {} frames, {} for each that the decoder reads, found {}", frames.read.dim(1) * r, r,
         frames.labels.dim(1));
  return frames;
}

NamedTensors SpeechT5ForTextToSpeech::run(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor text_mask = inputs.find("attention_mask"), mask = additive_mask(text_mask);
  const SpeechT5Frames frames = speecht5_frames(c_, inputs);
  const Tensor source = encoded(inputs.at("input_ids"), mask, context);
  const Tensor seed = inputs.find("seed");
  SpeechT5Masks masks(seed.defined() ? static_cast<uint64_t>(cast(seed, DType::kInt64).item<int64_t>()) : 0);

  const Tensor x = prenet_(cast(frames.read, source.dtype()), inputs.find("speaker_embeddings"), 0, masks, context);
  std::vector<Tensor> seen;
  const bool guided = frames.labels.defined() && c_.guided_attention;
  const Tensor hidden = decoder_(x, additive_mask(frames.mask),
                                 {.states = source, .mask = mask, .seen = guided ? &seen : nullptr}, context);
  const SpeechT5Spectra made = postnet_.spectra(hidden, context);
  const Tensor after = postnet_.finished(made.before, context);
  NamedTensors outputs;
  if (frames.labels.defined())
    outputs.set("loss", speecht5_loss(c_, made, after, frames.labels, seen, text_mask, context));
  outputs.set("spectrogram", after);
  outputs.set("encoder_last_hidden_state", source);
  return outputs;
}

// Step by step: each gives r frames, of which the next reads the last.
Tensor SpeechT5ForTextToSpeech::spectrum_of(const SpeechRequest& request, ForwardContext& context) const {
  const auto S = static_cast<int64_t>(request.ids.size());
  const int64_t r = c_.reduction_factor, M = c_.num_mel_bins;
  std::vector<int64_t> kept;
  for (const int64_t id : request.ids) kept.push_back(id == c_.padding ? 0 : 1);
  const Tensor mask = additive_mask(Tensor::from(kept, {1, S}));
  const Tensor source = encoded(Tensor::from(request.ids, {1, S}), mask, context);
  const Tensor voice = Tensor::from(request.voice, {1, c_.speaker_width});

  const auto steps = [&](double ratio) {
    return static_cast<int64_t>(static_cast<double>(S) * ratio / static_cast<double>(r));
  };
  const int64_t least = steps(request.least_steps), most = steps(request.most_steps);
  SpeechT5Masks masks(request.seed);
  KeyValueCache cache(1, {1});
  context.cache = &cache;
  std::vector<float> frames, last(static_cast<size_t>(M), 0.0F);
  for (int64_t step = 0;; ++step) {
    if (step == c_.max_speech_positions)
      fail(
          "SpeechT5: expected the text to end within {} steps (max_speech_positions); give shorter texts, or a lower "
          "maxlenratio",
          c_.max_speech_positions);
    cache.begin(1);
    const Tensor x = prenet_(cast(Tensor::from(last, {1, 1, M}), source.dtype()), voice, step, masks, context);
    const SpeechT5Spectra made = postnet_.spectra(decoder_(x, {}, {.states = source, .mask = mask}, context), context);
    const Tensor spectra = cast(made.before, DType::kFloat32), ending = sum(sigmoid(cast(made.stop, DType::kFloat32)));
    std::vector<Tensor> computed = cache.tensors();
    computed.insert(computed.end(), {spectra, ending});
    eval(computed);
    cache.end();
    const std::vector<float> found = spectra.to_vector<float>();
    frames.insert(frames.end(), found.begin(), found.end());
    last.assign(found.end() - M, found.end());
    const bool ends = static_cast<double>(ending.item<float>()) >= request.threshold || step + 1 >= most;
    if (step + 1 >= least && ends) break;
  }
  context.cache = nullptr;
  return Tensor::from(frames, {1, static_cast<int64_t>(frames.size()) / M, M});
}

std::vector<float> SpeechT5ForTextToSpeech::speak(const SpeechRequest& request) const {
  if (request.ids.empty()) fail("SpeechT5: expected at least one token of the text");
  for (const int64_t id : request.ids)
    if (id < 0 || id >= c_.vocab_size)
      fail("SpeechT5: expected tokens from 0 to {}, found {}: the tokenizer is of another model", c_.vocab_size - 1,
           id);
  if (static_cast<int64_t>(request.voice.size()) != c_.speaker_width)
    fail("speaker_embeddings: expected a vector of {} numbers, found {}", c_.speaker_width, request.voice.size());
  if (!request.vocoder) fail("SpeechT5: expected a vocoder, which makes samples of spectra");
  const NoGradient inference;
  ForwardContext context;
  prepare(context);
  const Tensor before = spectrum_of(request, context);
  const Tensor after = postnet_.finished(cast(before, dtype()), context);
  return request.vocoder->samples(squeeze(after, 0));
}

}  // namespace

static FamilyInputs speecht5_inputs() {
  FamilyInputs inputs = text_inputs();
  inputs.push_back({.name = "decoder_input_values",
                    .kind = FamilyInput::Kind::kNumbers,
                    .axes = {{.name = "steps"}, {.name = "bands", .fields = {"num_mel_bins"}, .otherwise = 80}}});
  inputs.push_back({.name = "speaker_embeddings",
                    .kind = FamilyInput::Kind::kNumbers,
                    .axes = {{.name = "speaker", .fields = {"speaker_embedding_dim"}, .otherwise = 512}},
                    .needed = false});
  return inputs;
}

static Family speecht5_family() {
  return {.model_type = "speecht5",
          .base_prefix = "speecht5",
          .architectures = {{"SpeechT5ForTextToSpeech",
                             {.task = HeadTask::kSpeech,
                              .pipelines = {"text-to-audio"},
                              .labels = HeadLabels::kSpectrum,
                              .modules = {"speech_decoder_postnet"},
                              .vocabulary = none,
                              .outputs = {"spectrogram", "encoder_last_hidden_state"}},
                             make_model<SpeechT5ForTextToSpeech>}},
          .inputs = speecht5_inputs(),
          .processors = {.tokenizer = "SpeechT5",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_text_positions"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kSpeechT5Family{speecht5_family};

}  // namespace transom
