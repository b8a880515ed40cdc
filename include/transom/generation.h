// SPDX-License-Identifier: Apache-2.0
// Text generation: a language model predicts one token after the other, with the options and results of Transformers'
// generate().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/model_inputs.h"
#include "transom/tokenizer.h"

namespace transom {

// The fields of Transformers' GenerationConfig, with its defaults.
struct GenerationConfig {
  // ---- length, in tokens; of decoder-only models the prompt is counted in max_length and min_length
  std::optional<int64_t> max_length, max_new_tokens;  // neither: 20 new ones
  int64_t min_length = 0;
  std::optional<int64_t> min_new_tokens;
  std::vector<std::string> stop_strings;  // a row ends when its text holds one; needs the tokenizer
  std::optional<double> max_time;         // seconds

  // ---- strategy
  bool do_sample = false;
  int64_t num_beams = 1, num_return_sequences = 1;
  double length_penalty = 1;
  enum class EarlyStopping { kFalse, kTrue, kNever } early_stopping = EarlyStopping::kFalse;
  bool use_cache = true;
  uint64_t seed = 0;  // of sampling; not a field of Transformers, whose generator is global

  // ---- logits processors: what changes the scores of the next token
  double repetition_penalty = 1, encoder_repetition_penalty = 1;
  int64_t no_repeat_ngram_size = 0, encoder_no_repeat_ngram_size = 0;
  std::vector<TokenIds> bad_words_ids;
  std::vector<std::pair<TokenIds, double>> sequence_bias;
  std::optional<int64_t> forced_bos_token_id;
  TokenIds forced_eos_token_id, suppress_tokens, begin_suppress_tokens;
  std::vector<std::pair<int64_t, int64_t>> forced_decoder_ids;  // (place in the decoder's text, token)
  std::optional<std::pair<int64_t, double>> exponential_decay_length_penalty;
  bool remove_invalid_values = false, renormalize_logits = false;

  // ---- sampling
  double temperature = 1;
  int64_t top_k = 50;
  double top_p = 1, typical_p = 1, epsilon_cutoff = 0, eta_cutoff = 0;
  std::optional<double> min_p;

  // ---- special tokens
  std::optional<int64_t> pad_token_id, bos_token_id, decoder_start_token_id;
  TokenIds eos_token_id;  // each of them ends a row

  // Reads generation_config.json of a directory; without that file, the same fields of config.json.
  static GenerationConfig from_pretrained(const std::string& directory);
  // Sets the fields of a JSON object, {"num_beams": 4}. Throws for unknown fields and for those that are not supported;
  // the error names the field.
  void update(std::string_view json);
};

// Receives the tokens as they are generated.
class Streamer {
 public:
  virtual ~Streamer() = default;
  virtual void put(const TokenIds& ids) = 0;  // first the prompt, then a token at a time
  virtual void end() = 0;
};

// Passes text to `sink` as Transformers' TextStreamer prints it: up to the last space or end of line, and the whole
// text if it ends with a CJK character, since these scripts have no spaces.
class TextStreamer : public Streamer {
 public:
  TextStreamer(Tokenizer tokenizer, std::function<void(std::string_view)> sink, bool skip_prompt = false,
               bool skip_special_tokens = true);
  void put(const TokenIds& ids) override;
  void end() override;

 private:
  Tokenizer tokenizer_;
  std::function<void(std::string_view)> sink_;
  bool skip_prompt_, skip_special_tokens_, at_prompt_ = true;
  TokenIds pending_;
  size_t given_ = 0;  // bytes of the pending tokens' text
};

struct GenerationOptions {
  Streamer* streamer = nullptr;          // of one row, without beams
  const Tokenizer* tokenizer = nullptr;  // for stop strings
  // Changes the scores [V] of the token that follows `tokens`, after the logits processors of the configuration and
  // before the logits warpers of sampling. -infinity excludes a token.
  std::function<void(const TokenIds& tokens, std::span<float> scores)> process_logits;
};

struct GenerationOutput {
  // num_return_sequences for each row, as generate() returns them, of one length: rows that ended are filled with the
  // padding token. Each begins with its prompt; of a prompt that is embeddings alone it is what was written.
  std::vector<TokenIds> sequences;
  std::vector<double> scores;  // of beam search
};

// Inputs of a decoder-only model are the prompts: input_ids [B, T] and attention_mask, rows padded on the left; with
// inputs_embeds [B, T, D], or these alone, the embeddings of all their places. Inputs of an encoder-decoder are those
// of its encoder, with decoder_input_ids if the text begins with more than the start token. Throws for models that do
// not generate, for inputs that the model does not know, and for options that are not supported.
GenerationOutput generate(const Model& model, const NamedTensors& inputs, const GenerationConfig& config,
                          const GenerationOptions& options = {});
// The same of one prompt: its tokens, with the inputs that fill some of their places. Of a model with an encoder one
// input without places is what the encoder reads, and tokens are those that the text begins with; none: the start
// token.
GenerationOutput generate(const Model& model, const ModelInputs& prompt, const GenerationConfig& config,
                          const GenerationOptions& options = {});

}  // namespace transom
