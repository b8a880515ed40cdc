// SPDX-License-Identifier: Apache-2.0
// What generate() is given, from what users write: JSON objects with the names of its arguments, and texts.
#pragma once

#include <span>
#include <string>

#include "base/json/json_fwd.h"
#include "transom/generation.h"

namespace transom {

// {"input_ids": [[...]], "attention_mask": [[...]]}, {"input_features": [[[...]]]}, {"inputs_embeds": [[[...]]]}
// or {"pixel_values": [[[[...]]]]} beside ids: nested lists of numbers as tensors; a flat list of ids is one row.
// `where` names the object in errors.
NamedTensors prompts_of_tensors(const Json& json, const std::string& where);
// {"text": "..."} or {"text": ["...", ...]}.
NamedTensors prompts_of_texts(const Json& json, const Model& model, const Tokenizer& tokenizer,
                              const std::string& where);
// Ids of texts, padded on the left for decoder-only models, with attention_mask.
NamedTensors prompts_of(std::span<const Encoding> encodings, const Model& model, const Tokenizer& tokenizer);
NamedTensors prompts_of(std::span<const TokenIds> rows, const Model& model, const Tokenizer& tokenizer);

// Whether the model writes a text of its own, about what its encoder read, rather than going on with a prompt.
bool writes_anew(const Model& model);

}  // namespace transom
