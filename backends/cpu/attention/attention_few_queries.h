// SPDX-License-Identifier: Apache-2.0
// Attention of a few queries of each row to the keys and values of a cache, which are read where they lie and in their
// type. Keys behind the last one and before the first one that the bias shows are not read: the work goes by the length
// of a text, not by the room that its cache has.
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// Whether this node is such an attention, without dropout.
bool has_few_queries(const Node& node);
// The bits of a row do not depend on the other rows, nor on what the cache has room for.
Kernel make_attention_of_few_queries(const Node& node);

}  // namespace transom::cpu
