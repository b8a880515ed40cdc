// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/error.h"

namespace transom::cpu {

using backend::fail;
using backend::Failure;
using backend::guarded;

}  // namespace transom::cpu
