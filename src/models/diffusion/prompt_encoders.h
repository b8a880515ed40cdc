// SPDX-License-Identifier: Apache-2.0
// The text encoders of a pipeline with their tokenizers: one of Stable Diffusion 1 and 2, two of XL, of its refiner the
// second alone; of FLUX one for the text as a whole and T5, of Stable Diffusion 3 two and T5, or two alone. T tokens, D
// width of all encoders, E width of the pooled text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/diffusion/learned_words.h"
#include "models/diffusion/pipeline_directory.h"
#include "transom/tokenizer.h"

namespace transom {

class PromptEncoders {
 public:
  enum class Kind { kOne, kXl, kFlux, kThree };
  PromptEncoders(const PipelineDirectory& directory, const LoadOptions& options, Kind kind);

  struct Prompt {
    Tensor states, pooled;  // [1, T, D]; [1, E], undefined of kOne
  };
  // Texts that are longer than an encoder reads are cut, and a line of the log says so.
  // t5_tokens: how many T5 reads; t5_width: of its states, which are zeros where a pipeline of kThree has none.
  Prompt operator()(const std::string& text, int64_t clip_skip, int64_t t5_tokens = 0, int64_t t5_width = 0) const;
  // Leaves texts with these learned words and no others. Needs exclusive use. Where one is refused, none is in use.
  void learn(const std::vector<LearnedWord>& words);
  // By the name of its folder; null: there is none.
  Model* find(const std::string& part) const;

 private:
  struct Encoder {
    std::string part;
    std::unique_ptr<Model> model;
    Tokenizer tokenizer;
    bool projects;  // gives text_embeds
    LearnedTokens words = {};
    Tensor vectors = {};  // of the tokens without words; undefined: there are none
  };
  void learn_one(const LearnedWord& word);
  void forget();
  static Parameter& vectors_of(const Encoder& encoder);
  void add(const PipelineDirectory& directory, const LoadOptions& options, const std::string& number,
           const std::string& kind);
  bool reads_last_but_one() const { return kind_ == Kind::kXl || kind_ == Kind::kThree; }
  Tensor t5_states(const std::string& text, int64_t tokens, int64_t width) const;
  Tensor states_of(const Encoder& encoder, const std::string& text, int64_t clip_skip, Tensor& pooled) const;

  Kind kind_;
  std::vector<Encoder> encoders_;
  std::optional<Encoder> t5_;
};

}  // namespace transom
