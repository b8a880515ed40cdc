// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper/whisper_attempts.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "files/config/config.h"
#include "transom/ops.h"
#include "work/generation/logits/logits_processors.h"

namespace transom {
namespace {

// The rows of a batch that are to be written again.
NamedTensors rows_of_inputs(const NamedTensors& inputs, const std::vector<size_t>& rows) {
  NamedTensors chosen;
  for (const auto& [name, tensor] : inputs.items()) {
    std::vector<Tensor> parts;
    for (const size_t row : rows)
      parts.push_back(slice(tensor, 0, static_cast<int64_t>(row), static_cast<int64_t>(row) + 1));
    chosen.set(name, parts.size() == 1 ? parts[0] : concatenate(parts, 0));
  }
  return chosen;
}

GenerationConfig at_temperature(GenerationConfig config, double temperature) {
  config.do_sample = temperature > 0;
  config.temperature = config.do_sample ? temperature : 1;
  if (config.do_sample) config.num_beams = 1;
  return config;
}

// Up to the first token of those that end the text.
TokenIds without_padding(TokenIds tokens, const GenerationConfig& config) {
  const auto ends = [&](int64_t id) {
    return std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
  };
  while (!tokens.empty() && tokens.back() == config.pad_token_id && !ends(tokens.back())) tokens.pop_back();
  while (tokens.size() > 1 && ends(tokens.back()) && ends(tokens[tokens.size() - 2])) tokens.pop_back();
  return tokens;
}

class Measuring {
 public:
  explicit Measuring(const WhisperWindows& windows) : windows_(windows) {
    if (!windows.source || !windows.inputs.find("encoder_outputs").defined())
      fail("this model does not tell how sure it is: expected the checkpoint itself in place of a graph");
  }

  // The chance of the token that stands for silence, where a text starts.
  double no_speech(size_t row) const {
    if (!windows_.no_speech_token) return 0;
    const std::vector<float> scores = logits(row, windows_.start, windows_.before, windows_.before + 1);
    const auto token = static_cast<size_t>(std::max<int64_t>(*windows_.no_speech_token, 0));
    if (token >= scores.size()) return 0;
    std::vector<float> chances = scores;
    log_softmax(chances);
    return std::exp(chances[token]);
  }

  // The mean of the log probabilities of tokens among those that could have been chosen.
  double avg_logprob(size_t row, const TokenIds& tokens, const GenerationConfig& config) const {
    if (tokens.empty()) return 0;
    TokenIds text = windows_.start;
    const size_t begin = text.size();
    text.insert(text.end(), tokens.begin(), tokens.end() - 1);
    std::vector<float> all = logits(row, text, begin - 1, text.size());
    const size_t vocabulary = all.size() / tokens.size();
    const std::vector<LogitsProcessor> processors =
        logits_processors(config, {.prompt_length = static_cast<int64_t>(begin),
                                   .max_length = std::numeric_limits<int64_t>::max(),
                                   .vocabulary = static_cast<int64_t>(vocabulary),
                                   .padding = {},
                                   .encoder_input_ids = {},
                                   .custom = windows_.process});
    double sum = 0;
    TokenIds so_far = windows_.start;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::span<float> scores = std::span(all).subspan(i * vocabulary, vocabulary);
      for (const LogitsProcessor& processor : processors) processor({so_far, 0, scores});
      if (config.do_sample)
        for (float& score : scores) score *= static_cast<float>(config.temperature);
      log_softmax(scores);
      sum += scores[static_cast<size_t>(tokens[i])];
      so_far.push_back(tokens[i]);
    }
    return sum / static_cast<double>(tokens.size());
  }

 private:
  // Behind the tokens from one place to another.
  std::vector<float> logits(size_t row, const TokenIds& tokens, size_t from, size_t to) const {
    const Tensor states = rows_of_inputs(windows_.inputs, {row}).at("encoder_outputs");
    const Tensor ids = Tensor::from(tokens, {1, static_cast<int64_t>(tokens.size())});
    const Tensor all = windows_.source->seen(states, ids).logits;
    return cast(slice(all, 1, static_cast<int64_t>(from), static_cast<int64_t>(to)), DType::kFloat32)
        .to_vector<float>();
  }

  const WhisperWindows& windows_;
};

}  // namespace

double token_compression_ratio(const TokenIds& tokens, int64_t vocabulary) {
  const auto width = static_cast<size_t>(std::log2(static_cast<double>(std::max<int64_t>(vocabulary, 1))) / 8) + 1;
  std::string bytes;
  for (const int64_t token : tokens)
    for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(token >> (8 * i) & 0xff);
  return compression_ratio(bytes);
}

double compression_ratio(std::string_view bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::vector<Bytef> packed(size);
  if (::compress(packed.data(), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK) return 0;
  return static_cast<double>(bytes.size()) / static_cast<double>(size);
}

std::vector<WhisperAttempt> whisper_attempts(const WhisperWindows& windows, const WhisperFallbacks& fallbacks,
                                             bool measured) {
  measured = measured || fallbacks.measured();
  std::optional<Measuring> measuring;
  if (measured) measuring.emplace(windows);
  const auto rows = static_cast<size_t>(windows.inputs.items().begin()->second.dim(0));
  const int64_t vocabulary = windows.model.config().get_int("vocab_size", 51865);
  std::vector<WhisperAttempt> attempts(rows);
  std::vector<double> silence(rows, 0);
  std::vector<size_t> pending;
  for (size_t row = 0; row < rows; ++row) {
    pending.push_back(row);
    if (measuring) silence[row] = measuring->no_speech(row);
  }
  const size_t tries = std::max<size_t>(fallbacks.temperatures.size(), 1);
  for (size_t attempt = 0; attempt < tries && !pending.empty(); ++attempt) {
    GenerationConfig config = windows.config;
    if (!fallbacks.temperatures.empty()) config = at_temperature(config, fallbacks.temperatures[attempt]);
    TokenIds starts;
    for (size_t i = 0; i < pending.size(); ++i) starts.insert(starts.end(), windows.start.begin(), windows.start.end());
    const auto length = static_cast<int64_t>(windows.start.size());
    NamedTensors inputs = pending.size() == rows ? windows.inputs : rows_of_inputs(windows.inputs, pending);
    inputs.set("decoder_input_ids", Tensor::from(starts, {static_cast<int64_t>(pending.size()), length}));
    const GenerationOutput output = generate(
        windows.model, inputs, config, {.streamer = nullptr, .tokenizer = nullptr, .process_logits = windows.process});
    std::vector<size_t> again;
    for (size_t k = 0; k < pending.size(); ++k) {
      const size_t row = pending[k];
      WhisperAttempt& made = attempts[row];
      const TokenIds& all = output.sequences[k];
      made.tokens = without_padding({all.begin() + length, all.end()}, config);
      if (!measuring) continue;
      made.measures = {.temperature = config.do_sample ? config.temperature : 0,
                       .avg_logprob = measuring->avg_logprob(row, made.tokens, config),
                       .compression_ratio = token_compression_ratio(made.tokens, vocabulary),
                       .no_speech_prob = silence[row]};
      const bool unsure = fallbacks.logprob && made.measures.avg_logprob < *fallbacks.logprob;
      const bool repeats =
          fallbacks.compression_ratio && made.measures.compression_ratio > *fallbacks.compression_ratio;
      made.skip = fallbacks.no_speech && unsure && silence[row] > *fallbacks.no_speech;
      if ((unsure || repeats) && !made.skip) again.push_back(row);
    }
    pending = std::move(again);
  }
  return attempts;
}

}  // namespace transom
