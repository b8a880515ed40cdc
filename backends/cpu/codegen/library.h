// SPDX-License-Identifier: Apache-2.0
// The module that holds LLVM, opened at the first use: loading it takes longer than many a program runs.
#pragma once

#include <optional>
#include <string>

#include "cpu/codegen/image.h"

namespace transom::cpu::codegen {

// Whether this build and this machine can generate code, as far as is known without opening the module.
bool generates_code();

// None, with a line in `error`, if the module cannot be opened or the text cannot be compiled.
std::optional<Code> compile_text(const std::string& text, std::string& error);

// The assembly of the text, or a line that says why there is none.
std::string assembly_of(const std::string& text);

}  // namespace transom::cpu::codegen
