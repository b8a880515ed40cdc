// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

#include "ops/computing.h"

namespace transom {

Autocast::Autocast(DType dtype) : before_(set_computing(&Computing::dtype, dtype)) {}
Autocast::~Autocast() { set_computing(&Computing::dtype, before_); }
DType Autocast::current() { return computing().dtype; }

AllowTf32::AllowTf32(bool on) : before_(set_computing(&Computing::tf32, on)) {}
AllowTf32::~AllowTf32() { set_computing(&Computing::tf32, before_); }
bool AllowTf32::active() { return computing().tf32; }

void allow_tf32(Attributes& attributes, DType dtype) {
  if (computing().tf32 && dtype == DType::kFloat32) attributes.set(kTf32, int64_t{1});
}

Tensor autocast_low(const Tensor& x) {
  const DType low = computing().dtype;
  return low != DType::kFloat32 && x.dtype() == DType::kFloat32 ? cast(x, low) : x;
}
Tensor autocast_full(const Tensor& x) {
  const DType low = computing().dtype;
  return low != DType::kFloat32 && x.dtype() == low ? cast(x, DType::kFloat32) : x;
}

}  // namespace transom
