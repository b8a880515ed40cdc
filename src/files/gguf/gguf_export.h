// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file from a model's config.json and tokenizer files: what gguf_config.cpp and
// gguf_tokenizer.cpp read, the other way round.
#pragma once

#include "base/json/json_fwd.h"
#include "files/gguf/gguf_writer.h"

namespace transom {

// general.architecture for a model of Transformers; a model type that has none here is an error that names those that
// have.
std::string gguf_architecture(const Json& config);
// Sizes, norms and rotary positions; scaled frequencies of llama3 become the tensor rope_freqs.weight. What GGUF has no
// key for is an error that names the field.
void add_gguf_config(GgufWriter& writer, const Json& config);
// Tokens, scores, types, merges, special tokens and the chat template of byte-level BPE, SentencePiece's BPE and
// Unigram, and WordPiece, from the text of tokenizer.json and tokenizer_config.json; `size` of the model's vocabulary,
// which may be larger.
void add_gguf_vocabulary(GgufWriter& writer, const Json& tokenizer, const Json& tokenizer_config, int64_t size);

}  // namespace transom
