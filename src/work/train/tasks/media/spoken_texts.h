// SPDX-License-Identifier: Apache-2.0
// The tokens of what is said, as Whisper is taught and told to write it: those of language, task and times stand before
// the text where the model is of many languages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "models/generative.h"
#include "transom/generation.h"
#include "transom/tokenizer.h"
#include "transom/training_arguments.h"

namespace transom {

class SpokenTexts {
 public:
  // Refuses languages that the model does not know, and languages and translations of a model of one language.
  SpokenTexts(Tokenizer tokenizer, const GenerativeModel& model, const ScriptArguments& script);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // What is learnt: without the token that the decoder starts with, which the model puts before it.
  std::vector<int64_t> labels(const std::string& text) const;
  // The text of written tokens, without those that are special.
  std::string text(const TokenIds& tokens) const { return tokenizer_.decode(tokens, true); }
  // Beginnings of the texts of `rows` sounds, [rows, n]. A language that is not given is that which the model hears.
  Tensor beginnings(const Model& model, const Tensor& features) const;
  // So that the saved model writes what it has learnt.
  void tell(GenerativeModel& model) const;

 private:
  Tokenizer tokenizer_;
  bool many_languages_;
  std::string language_, task_;     // as given; the first may be empty
  int64_t start_ = 0;               // of the decoder
  std::vector<int64_t> prefix_;     // of what is learnt, behind the start token
  std::vector<int64_t> languages_;  // their tokens, in order
  std::optional<int64_t> language_id_, task_id_, no_times_;
};

}  // namespace transom
