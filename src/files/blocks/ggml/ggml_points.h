// SPDX-License-Identifier: Apache-2.0
// Blocks of 256 numbers in two bits a number and less: numbers of a point of a lattice with their signs (IQ), or three
// values (TQ). Each function gives the codes [256] and the scales of a block, as those of ggml_blocks.cpp.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

void read_iq2_xxs(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq2_xs(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq2_s(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq3_xxs(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq3_s(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq1_s(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_iq1_m(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_tq1_0(const uint8_t* block, uint8_t* codes, float* scales, float*);
void read_tq2_0(const uint8_t* block, uint8_t* codes, float* scales, float*);

// What codes stand for. Those of IQ1 are eight times what they are: whole numbers, as int8 kernels want them.
extern const std::vector<float> kIq2Values, kIq3XxsValues, kIq3SValues, kIq1Values;

}  // namespace transom
