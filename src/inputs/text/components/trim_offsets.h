// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/tokenizer.h"

namespace transom::text {

// Takes the spaces at the ends of byte-level tokens out of their offsets. `prefix_space`: a space at the very front of
// the text was added and has no place in the offsets.
void trim_offsets(Encoding& encoding, bool prefix_space);

}  // namespace transom::text
