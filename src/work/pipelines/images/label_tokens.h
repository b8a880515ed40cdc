// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {

// input_ids and attention_mask [texts, T] of texts that pictures are compared with, padded to the longest, or with
// `length` cut and padded to that; on the tokenizer's side or the one given. A mask only where the tokenizer gives one:
// SigLIP reads what fills a text too.
NamedTensors label_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts, int64_t length = 0,
                          std::optional<Side> side = {});

}  // namespace transom
