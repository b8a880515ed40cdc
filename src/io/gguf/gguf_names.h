// SPDX-License-Identifier: Apache-2.0
// The names of tensors in GGUF beside those in checkpoints, and what writers of GGUF do to them:
// gguf-py/gguf/tensor_mapping.py of https://github.com/ggml-org/llama.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace transom {

// What a tensor of GGUF is, beside that of the checkpoint.
enum class GgufChange {
  kNone,
  kRotaryPairs,  // rows of a head: the two numbers that turn together stand side by side (llama)
  kRotaryPairsOfKeys,
  kHeadsTogether,  // rows (head, 3, d) became (3, head, d) (bloom, gptneox)
  kOneMore,        // a norm's scale is 1 + weight (gemma)
  kTransposed,     // Conv1D's [in, out] became [out, in] (gpt2)
};

struct GgufName {
  const char *gguf, *name;  // without .weight and .bias
  GgufChange change = GgufChange::kNone;
};
struct GgufNames {
  const char* layers;  // "model.layers."
  std::vector<GgufName> whole, of_layer;
};

// Of an architecture (general.architecture); `experts`: with mixtures of experts.
const GgufNames& gguf_names(const std::string& architecture, bool experts);

// The place in GGUF of each row of the checkpoint's tensor; empty: as it is. Rows that are no whole heads are an error
// that begins with `where`.
std::vector<int64_t> gguf_places_of_rows(GgufChange change, int64_t rows, int64_t heads, int64_t key_heads,
                                         const std::string& where);

}  // namespace transom
