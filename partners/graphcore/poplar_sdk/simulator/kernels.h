// SPDX-License-Identifier: Apache-2.0
// What the operations of a program compute, by name: a step says its kernel and the kernel's parameters, so that an
// executable can be stored and comes back as it was.
#pragma once

#include <functional>
#include <string>

#include "simulator/bytes.h"
#include "simulator/model.h"

namespace ipu_emulator {

// Makes the function of a step from its tensors and its parameters. Either may come from a file: throws poplar_error
// for what the kernel cannot run.
using MakeKernel = std::function<void(Memory&)> (*)(const Step& step, Reader& parameters);

struct RegisterKernel {
  RegisterKernel(const char* name, MakeKernel make);
};

// Of an operation or a copy.
std::function<void(Memory&)> kernel_of(const Step& step);

// Refuses a step that has other numbers of tensors.
void expect_tensors(const Step& step, size_t reads, size_t writes, size_t updates = 0);

}  // namespace ipu_emulator
