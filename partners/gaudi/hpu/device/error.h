// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/plugin/error.h"

namespace transom::hpu {

using backend::fail;
using backend::Failure;

}  // namespace transom::hpu
