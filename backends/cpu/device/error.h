// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/plugin/error.h"

namespace transom::cpu {

using backend::fail;
using backend::Failure;
using backend::guarded;

}  // namespace transom::cpu
