// SPDX-License-Identifier: Apache-2.0
// Numbers as blocks of ggml's types (see ggml_blocks.h), for files that llama.cpp reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transom {

// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.
bool can_encode_ggml(uint32_t type);

// The bytes of rows [rows, depth], on all threads; depth is a multiple of the type's block. Q8_0, Q4_0, Q4_1, Q5_0 and
// Q5_1 have the bytes of ggml's reference quantisers. Scales and minima of the K types are those of the least squared
// error, weighted by magnitude, among some twenty. Numbers that are not finite are an error.
std::vector<std::byte> encode_ggml(uint32_t type, const float* numbers, int64_t rows, int64_t depth);

}  // namespace transom
