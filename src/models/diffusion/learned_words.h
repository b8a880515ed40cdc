// SPDX-License-Identifier: Apache-2.0
// Words that textual inversion learned (Gal et al., 2022): files of diffusers and of AUTOMATIC1111's program, which
// hold the vectors of a token, several of which stand for it one behind the other. D width of an encoder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/checkpoint/tensor_view.h"
#include "transom/tokenizer.h"

namespace transom {

struct LearnedWord {
  std::string token;
  std::string part;  // "text_encoder", "text_encoder_2"; empty: the encoder of this width
  TensorView rows;   // [n, D] or [D]
  std::string where;
};

// A file (.safetensors, .bin, .pt), or a folder with learned_embeds.safetensors or .bin (and learned_embeds_2: of the
// second encoder). `token`: in place of the file's own; without both the name of the file is it.
std::vector<LearnedWord> read_learned_words(const std::string& path, const std::optional<std::string>& token);

// Learned words in texts for one tokenizer: they are found before it sees the rest, the longest at each place.
class LearnedTokens {
 public:
  // `ids`: of the vectors. A word of several vectors has a name for each further one, too: token_1 ...
  void add(const Tokenizer& tokenizer, const std::string& token, const std::vector<int64_t>& ids);
  bool empty() const { return words_.empty(); }
  bool holds(const std::string& token) const;
  // As the tokenizer's encode() with padding to `length` places, of which the text fills as many as it needs. `cut`:
  // whether it needs more.
  Encoding encode(const Tokenizer& tokenizer, const std::string& text, int64_t length, bool& cut) const;

 private:
  struct Word {
    std::string token;
    std::vector<int64_t> ids;
  };
  std::vector<Word> words_;  // as they are looked for, the longest first
  bool folds_ = false;       // the tokenizer makes letters small
};

}  // namespace transom
