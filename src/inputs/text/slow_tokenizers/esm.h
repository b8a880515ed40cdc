// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json/json_fwd.h"
#include "inputs/text/tokenizer_file.h"

namespace transom::text {

// The vocab.txt of ESM's tokenizer, one token a line: a text is cut at each of them, the longest first, and what is
// left between spaces is unknown. `config` names the special tokens.
TokenizerFile read_esm_vocabulary(std::string_view lines, const Json& config, const std::string& where);

}  // namespace transom::text
