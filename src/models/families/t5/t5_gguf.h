// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/family/gguf.h"

namespace transom {

// T5's names in GGUF. Its metadata are of its own kind: io/gguf/gguf_t5.cpp.
GgufFamily t5_gguf();

}  // namespace transom
