// SPDX-License-Identifier: Apache-2.0
// A model that reads texts token by token, and what it foretells: drives a GenerativeModel and its KV cache.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/generative.h"
#include "transom/compile.h"
#include "transom/generation.h"

namespace transom {

class Decoding {
 public:
  // `mask` [rows][prompt length], 1 for tokens, 0 for padding. Inputs of the encoder for a model that has one. Texts
  // get no longer than `max_length`.
  Decoding(const GenerativeModel& model, NamedTensors encoder_inputs, std::vector<TokenIds> mask, int64_t max_length,
           bool use_cache);

  // The scores of the next token behind each of the rows, [rows, V] in f32. Rows are longer than at the last call, by
  // what the model then reads; at the first call they are the prompts.
  std::vector<float> next(const std::vector<TokenIds>& rows);
  // Each row from now on stands for `times` rows, one behind the other.
  void repeat(int64_t times);
  // Row i goes on from row `sources`[i].
  void reorder(const std::vector<int64_t>& sources);
  int64_t vocabulary() const { return vocabulary_; }  // V; after the first call

 private:
  void restart();
  Tensor pass(const Tensor& ids, const Tensor& positions);
  Tensor step(const Tensor& ids, const Tensor& positions);
  const GenerativeModel& model_;
  NamedTensors encoder_inputs_;
  std::vector<TokenIds> mask_;
  int64_t max_length_;
  bool use_cache_;
  int64_t vocabulary_ = 0;
  std::unique_ptr<KeyValueCache> cache_;
  std::optional<CompiledFunction> step_;  // one token further: traced once for each capacity
};

}  // namespace transom
