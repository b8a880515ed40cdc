// SPDX-License-Identifier: Apache-2.0
// T5 in GGUF (general.architecture t5 and t5encoder), as llama.cpp's convert_hf_to_gguf.py writes it.
#pragma once

#include "base/json/json_fwd.h"
#include "files/gguf/gguf_keys.h"

namespace transom {

// The fields of T5's config.json. What GGUF does not say is as in all files of T5: the greatest distance is 128, the
// activation ReLU, or a gated GELU (T5 1.1). UMT5, which has a bias of distances in each layer, is refused.
void add_gguf_t5(const GgufKeys& keys, Json& config);

// Whether the head is the table of tokens, whose outputs are scaled then: where the file has none, and in files of T5
// 1.0 that repeat the table.
bool gguf_t5_head_is_tied(const GgufFile& file);

}  // namespace transom
