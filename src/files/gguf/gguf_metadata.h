// SPDX-License-Identifier: Apache-2.0
// Nothing of a GGUF file's metadata is ignored: each key is read, or known to have no effect, or refused, or reported.
#pragma once

#include "base/json/json_fwd.h"
#include "files/gguf/gguf_file.h"

namespace transom {

// Refuses keys below the architecture's name that change results and are not carried out: an error that names key and
// value. `written`: keys and values that the configuration read of the file would be written with, which are to be the
// file's.
void check_gguf_metadata(const GgufFile& file, const Json& written);
// One warning that names the keys that nothing here knows.
void report_gguf_metadata(const GgufFile& file, const Json* written = nullptr);

}  // namespace transom
