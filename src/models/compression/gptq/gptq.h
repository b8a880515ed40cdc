// SPDX-License-Identifier: Apache-2.0
// GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers", 2022).
#pragma once

#include <memory>
#include <vector>

#include "files/blocks/coded_matrix.h"

namespace transom {

struct GptqOptions {
  int bits = 4;
  int64_t group = 128;     // inputs that share a scale
  bool act_order = false;  // inputs of the largest squares first; groups are then of that order
  double damping = 0.01;   // of the mean of the diagonal, added to it; more where that is not enough
};

// Rounds w [rows, depth] column by column; what a column loses is made up for by those that follow, so that the outputs
// on inputs with the sums of products h [depth, depth] change least.
std::shared_ptr<CodedMatrix> gptq_matrix(const std::vector<float>& w, int64_t rows, int64_t depth,
                                         const std::vector<float>& h, const GptqOptions& options);

}  // namespace transom
