// SPDX-License-Identifier: Apache-2.0
// What a model that writes reads: tokens, and inputs of other kinds with the places that they fill among the tokens.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

using TokenIds = std::vector<int64_t>;

// Places [begin, begin + count) of a text.
struct FilledPlaces {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
};

// An input that is no token: embeddings, a picture, a sound. The model makes rows of it, one for each of its places in
// order, which stand there in place of the embeddings of the tokens.
struct AttachedInput {
  // By the names of the model's arguments, for this input alone: "inputs_embeds" [n, D] of any model that reads
  // embeddings (f32, or the type in which the model computes).
  NamedTensors tensors;
  // In order, and apart from those of the other inputs of a text. None: all tokens may read it, as those of a decoder
  // read what the encoder was given (each tensor with one row).
  std::vector<FilledPlaces> places;
};

struct ModelInputs {
  ModelInputs() = default;
  ModelInputs(TokenIds ids, std::vector<AttachedInput> inputs = {})
      : tokens(std::move(ids)), attached(std::move(inputs)) {}
  ModelInputs(std::initializer_list<int64_t> ids) : tokens(ids) {}

  // One for each place, also for those that an input fills: there it is what penalties and log probabilities see.
  TokenIds tokens;
  std::vector<AttachedInput> attached;
};

}  // namespace transom
