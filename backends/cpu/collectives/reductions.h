// SPDX-License-Identifier: Apache-2.0
// Reductions over the ranks of a group, made of messages: each rank gets from all others what it reduces, in their own
// element type, and gives the result on. 16-bit floats travel as they are, are summed in f32 and rounded once. Elements
// are taken in the order of the ranks, so that reduce_to_all and reduce_to_parts give the same bits, on every rank.
#pragma once

#include "cpu/collectives/transport.h"

namespace transom::cpu {

struct Place {
  size_t rank, ranks;
};

// In place. Each rank sends 2 (ranks - 1) / ranks of the bytes.
void reduce_to_all(Transport& transport, Place place, std::byte* data, size_t count, transom_dtype dtype,
                   transom_reduction reduction);

// `from` holds `count` elements for each rank; this one's part of the result goes to `to`, which may be that part of
// `from`. Each rank sends (ranks - 1) / ranks of the bytes.
void reduce_to_parts(Transport& transport, Place place, const std::byte* from, std::byte* to, size_t count,
                     transom_dtype dtype, transom_reduction reduction);

}  // namespace transom::cpu
