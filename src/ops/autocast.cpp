// SPDX-License-Identifier: Apache-2.0
#include "ops/autocast.h"

namespace transom {
namespace {

thread_local DType autocast_dtype = DType::kFloat32;

}  // namespace

Autocast::Autocast(DType dtype) : before_(autocast_dtype) { autocast_dtype = dtype; }
Autocast::~Autocast() { autocast_dtype = before_; }
DType Autocast::current() { return autocast_dtype; }

Tensor autocast_low(const Tensor& x) {
  return autocast_dtype != DType::kFloat32 && x.dtype() == DType::kFloat32 ? cast(x, autocast_dtype) : x;
}
Tensor autocast_full(const Tensor& x) {
  return autocast_dtype != DType::kFloat32 && x.dtype() == autocast_dtype ? cast(x, DType::kFloat32) : x;
}

}  // namespace transom
