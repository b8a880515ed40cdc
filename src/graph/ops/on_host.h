// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/ir/operation.h"

namespace transom::op {

// What its region computes, on the host: nodes that the device does not run. Made by the pass place_on_host only; the
// runtime runs the region on the reference device, between the programs of the device.
extern const Operation& on_host;

}  // namespace transom::op
