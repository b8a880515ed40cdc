// SPDX-License-Identifier: Apache-2.0
// The selective scan, and the gated delta rule, of one head and token, with the state at hand. The sources are compiled
// once for each instruction set; scan_kernels() is the table for the best one.
#pragma once

#include <cstddef>

namespace transom::cpu {

struct ScanHead {
  const float* a;  // [rates]
  size_t rates;    // S or 1
  size_t P, S;
};

struct ScanKernels {
  // state [P, S] = exp(dt a) state + dt x b and y [P] = state c, which may be null; `decays` is room for S numbers.
  void (*token)(const ScanHead& head, float* decays, float* state, const float* x, float dt, const float* b,
                const float* c, float* y);
  // Of the states before and after the token: `cotangent` of the state behind it becomes that of the state before it,
  // dx and ddt are set, what the token adds to da [rates], db and dc [S] is added.
  void (*gradient)(const ScanHead& head, float* decays, float* cotangent, const float* before, const float* after,
                   const float* x, float dt, const float* b, const float* c, const float* dy, float* dx, float* ddt,
                   float* da, float* db, float* dc);
  // The gated delta rule: state [P, S] = h + beta (v - h k) k' of h = decay state, and y [P] = state q.
  void (*delta)(size_t P, size_t S, float* state, const float* v, float decay, float beta, const float* k,
                const float* q, float* y);
};

const ScanKernels& scan_kernels();

namespace portable {
void fill_scan(ScanKernels& table);
}
namespace avx2 {
void fill_scan(ScanKernels& table);
}
namespace avx512 {
void fill_scan(ScanKernels& table);
}

}  // namespace transom::cpu
