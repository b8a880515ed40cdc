// SPDX-License-Identifier: Apache-2.0
// What differs between the languages of kernels, behind macros:
//   KERNEL(n)            before the name of a kernel of groups of n threads
//   FUNCTION             before a function that kernels call
//   GLOBAL, LOCAL        before the types that pointers and arrays of device and group memory have
//   THREAD, GROUP, GROUPS  this thread in its group, this group, how many there are
//   BARRIER              all threads of a group arrive, and see what the others wrote to either memory
//   i8 ... u64, as_float, as_uint, as_double, as_ulong
#pragma once

#include <string_view>

#include "gpu/api/api.h"

namespace transom::gpu {

std::string_view prelude(Dialect dialect);

}  // namespace transom::gpu
