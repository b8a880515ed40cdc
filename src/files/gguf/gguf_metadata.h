// SPDX-License-Identifier: Apache-2.0
// Nothing of a GGUF file's metadata is ignored: each key is read, or known to have no effect, or refused, or reported.
#pragma once

#include "files/gguf/gguf_file.h"

namespace transom {

// Refuses keys below the architecture's name that change results and are not carried out: an error that names key and
// value.
void check_gguf_metadata(const GgufFile& file);
// One warning that names the keys that nothing here knows.
void report_gguf_metadata(const GgufFile& file);

}  // namespace transom
