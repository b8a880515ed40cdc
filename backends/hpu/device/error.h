// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/error.h"

namespace transom::hpu {

using backend::fail;
using backend::Failure;

}  // namespace transom::hpu
