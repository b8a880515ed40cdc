// SPDX-License-Identifier: Apache-2.0
// Inputs among the tokens of a text: checked, named by what they hold, and as the rows that the model makes of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/generative.h"

namespace transom {

// Throws unless the places of all inputs are apart, in order, and among the `tokens` tokens of the text.
void check_places(const std::vector<AttachedInput>& attached, int64_t tokens);

// 32 bytes that inputs with other tensors do not have (SHA-256 of names, types, shapes and contents; not the places).
std::string content_of(const AttachedInput& input);

// The inputs of one text as rows [D] that stand in place of the embeddings of its tokens.
class EmbeddedInputs {
 public:
  // Gives what GenerativeModel::embed gives, computed: the rows of an input, one behind the other.
  using Compute = std::function<std::vector<float>(const AttachedInput& input)>;
  // Inputs that end before the place `from` are left out.
  EmbeddedInputs(const std::vector<AttachedInput>& attached, int64_t width, int64_t from, const Compute& compute);

  int64_t from() const { return from_; }
  // The row at a place from from() on; null: the token's own embedding stands there.
  const float* at(int64_t place) const;

 private:
  struct Filled {
    FilledPlaces places;
    size_t first;  // of `rows_`
  };
  int64_t width_, from_;
  std::vector<Filled> filled_;  // in order
  std::vector<float> rows_;
};

// Behind the last place that inputs fill; 0: none is filled.
int64_t end_of_places(std::span<const AttachedInput> attached);

}  // namespace transom
