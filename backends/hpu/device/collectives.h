// SPDX-License-Identifier: Apache-2.0
// Collectives between cards, by the library's own.
#pragma once

#include "transom/device_plugin.h"

namespace transom::hpu {

void add_collectives(transom_plugin& table);

}  // namespace transom::hpu
