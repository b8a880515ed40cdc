// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/collectives/transport.h"

namespace transom::cpu {

// The Exchange of the communicator of this id, over what the host is connected by. Throws std::runtime_error.
std::vector<Bytes> exchange_over_host(const unsigned char* id, uint32_t rank, const std::vector<Bytes>& parts);

}  // namespace transom::cpu
