// SPDX-License-Identifier: Apache-2.0
// Unicode's normalisation forms (UAX 15), keeping the alignment with the original text.
#pragma once

#include "inputs/text/unicode/aligned_text.h"

namespace transom::text {

enum class UnicodeForm { kNfd, kNfkd, kNfc, kNfkc };

void apply_unicode_form(UnicodeForm form, AlignedText& text);

}  // namespace transom::text
