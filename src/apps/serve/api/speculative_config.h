// SPDX-License-Identifier: Apache-2.0
// vLLM's --speculative-config: a JSON object that names a method of drafts and its numbers.
// https://docs.vllm.ai/en/latest/features/spec_decode.html
#pragma once

#include <string>

#include "apps/serve/api/options.h"

namespace transom::serve {

// Throws kUsage for what is unknown, of another method, or out of its range.
void read_speculative_config(const std::string& text, ServeOptions& options);

}  // namespace transom::serve
