// SPDX-License-Identifier: Apache-2.0
// Machine code that was checked, made executable. Memory is never writable and executable at one time.
#pragma once

#include "cpu/codegen/image.h"

namespace transom::cpu::codegen {

// The address of the kernel, for as long as the process lives; null if the system does not allow it.
void* make_executable(const Code& code);

}  // namespace transom::cpu::codegen
