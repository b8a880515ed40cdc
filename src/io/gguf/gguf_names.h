// SPDX-License-Identifier: Apache-2.0
// The names of tensors in GGUF beside those in checkpoints, and what writers of GGUF do to them:
// gguf-py/gguf/tensor_mapping.py of https://github.com/ggml-org/llama.cpp
#pragma once

#include <cstdint>
#include <optional>
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
// Layers one behind the other: blk.0, blk.1 ...; T5 has two such stacks.
struct GgufStack {
  const char *gguf, *name;  // "blk.", "model.layers."
  std::vector<GgufName> rules;
};
struct GgufNames {
  std::vector<GgufName> whole;
  std::vector<GgufStack> stacks;
};

// What changes the names within an architecture.
struct GgufTraits {
  bool experts = false;  // llama: mixtures of experts (Mixtral)
  bool gated = false;    // t5: a feed-forward layer of two inputs, as T5 1.1 has it
};
// Of an architecture (general.architecture).
const GgufNames& gguf_names(const std::string& architecture, GgufTraits traits);
// The name in GGUF without its ending ("blk.3.attn_q"), the rule that gives it, and the layer of its stack (-1: of
// none).
struct GgufPlace {
  std::string name;
  const GgufName* rule = nullptr;
  int64_t layer = -1;
};
// Where the module of a checkpoint ("model.layers.3.self_attn.q_proj") stands in GGUF; nothing where it has no name.
std::optional<GgufPlace> gguf_place(const std::string& module, const GgufNames& names);
// The other way round: the module of "blk.3.attn_q".
std::optional<GgufPlace> checkpoint_place(const std::string& gguf, const GgufNames& names);

// The place in GGUF of each row of the checkpoint's tensor; empty: as it is. Rows that are no whole heads are an error
// that begins with `where`.
std::vector<int64_t> gguf_places_of_rows(GgufChange change, int64_t rows, int64_t heads, int64_t key_heads,
                                         const std::string& where);

}  // namespace transom
