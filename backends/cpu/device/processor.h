// SPDX-License-Identifier: Apache-2.0
// What the processor that we run on can do.
#pragma once

namespace transom::cpu {

struct ProcessorFeatures {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false, avx512_vnni = false, amx_bf16 = false, amx_int8 = false;

  bool fast_bf16() const { return avx512_bf16 || amx_bf16; }
};

// Of this processor, or less: TRANSOM_CPU_ISA=portable, avx2 or avx512 (without what came after it) leaves out what is
// beyond that, for tests and to see what another processor would run. The matrix library has ONEDNN_MAX_CPU_ISA.

const ProcessorFeatures& processor_features();

}  // namespace transom::cpu
