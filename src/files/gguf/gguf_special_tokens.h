// SPDX-License-Identifier: Apache-2.0
// The tokens with a role in a GGUF file, by their ids, as llama.cpp reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/gguf/gguf_file.h"

namespace transom {

// tokenizer.ggml.token_type.
struct GgufTokenType {
  enum : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
};

// The id of a role: "bos", "eos", "unknown", "padding", "mask" and others of tokenizer.ggml.ROLE_token_id. Where the
// key is missing, or its id is no token of the file, that which the kind of vocabulary has by default, or nothing.
std::optional<int64_t> gguf_special_id(const GgufFile& file, const std::string& role);
// One warning for each id that is no token of the file.
void report_gguf_special_ids(const GgufFile& file);
// The tokens that end a text: eos first, then those of the keys eot and eom, then control tokens whose text says that
// they do. Empty: none is known.
std::vector<int64_t> gguf_end_ids(const GgufFile& file);

}  // namespace transom
