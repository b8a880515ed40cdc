// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

namespace transom {
namespace {

thread_local DType autocast_dtype = DType::kFloat32;
thread_local bool tf32 = false;

}  // namespace

Autocast::Autocast(DType dtype) : before_(autocast_dtype) { autocast_dtype = dtype; }
Autocast::~Autocast() { autocast_dtype = before_; }
DType Autocast::current() { return autocast_dtype; }

AllowTf32::AllowTf32(bool on) : before_(tf32) { tf32 = on; }
AllowTf32::~AllowTf32() { tf32 = before_; }
bool AllowTf32::active() { return tf32; }

void allow_tf32(Attributes& attributes, DType dtype) {
  if (tf32 && dtype == DType::kFloat32) attributes.set(kTf32, int64_t{1});
}

Tensor autocast_low(const Tensor& x) {
  return autocast_dtype != DType::kFloat32 && x.dtype() == DType::kFloat32 ? cast(x, autocast_dtype) : x;
}
Tensor autocast_full(const Tensor& x) {
  return autocast_dtype != DType::kFloat32 && x.dtype() == autocast_dtype ? cast(x, DType::kFloat32) : x;
}

}  // namespace transom
