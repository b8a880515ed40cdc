// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"
#include "files/gguf/gguf_writer.h"

namespace transom {

// The rotary positions of a decoder under the keys of `architecture`: base, width, scaling. Frequencies with divisors
// of their own become tensors: rope_freqs.weight (llama3), rope_factors_short.weight and rope_factors_long.weight
// (longrope). A kind of scaling that GGUF has no key for is an error that names it. `stated`: what the file says
// already; all of a width that it says turns.
void add_gguf_rotary(GgufWriter& writer, const std::string& architecture, const Json& config, const GgufRotary& rotary,
                     int64_t head_width, const Json& stated);

}  // namespace transom
