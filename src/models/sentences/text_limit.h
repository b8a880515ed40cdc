// SPDX-License-Identifier: Apache-2.0
// How long a text may be.
#pragma once

#include <cstdint>
#include <optional>

#include "models/sentences/sentence_modules.h"
#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {

// The most tokens of an input; empty where neither the model nor its tokenizer limits it.
std::optional<int64_t> longest_input(const Model& model, const Tokenizer& tokenizer);
// What the model alone takes; empty where its positions have no last one.
std::optional<int64_t> longest_positions(const Model& model);
// The most tokens of a text whose vector is asked for: max_seq_length stands above the tokenizer's own limit. Without
// it max_position_embeddings limits also models whose positions have no last one, as in sentence-transformers.
std::optional<int64_t> longest_sentence(const SentenceModules& modules, const Model& model, const Tokenizer& tokenizer);

}  // namespace transom
