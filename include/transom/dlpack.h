// SPDX-License-Identifier: Apache-2.0
// Tensors of other libraries, and tensors for them, through DLPack (dmlc.github.io/dlpack): the structs are those of
// its header dlpack.h, which this one does not need. Both the versioned struct of DLPack 1 and the older one are taken.
#pragma once

#include "transom/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace transom {

// A tensor with the contents of `managed`, on the device in use. Takes ownership in every case: the deleter is called
// once, when nothing uses the memory any more, on any thread; or before an Error is thrown.
// Host memory (kDLCPU, kDLCUDAHost, kDLROCMHost) that is dense and row-major is used in place by devices that compute
// in host memory, and copied otherwise; strides are followed. The memory is only read, and nobody may write to it while
// the tensor, or what is computed from it, is not yet evaluated and released.
// Throws an Error of kind kUnsupported for other devices, element types and major versions, and of kind kInput for a
// struct that contradicts itself.
Tensor from_dlpack(DLManagedTensorVersioned* managed);
Tensor from_dlpack(DLManagedTensor* managed);

// The contents of a tensor, computed if need be, in host memory with row-major strides. The caller owns the struct and
// calls its deleter, on any thread; the tensor may be gone by then.
// The first one shares the memory of a device that computes in host memory and sets DLPACK_FLAG_BITMASK_READ_ONLY,
// since tensors never change; the memory is not reused before the deleter is called. Of other devices, and with `copy`,
// it gives a copy that may be written to, and sets DLPACK_FLAG_BITMASK_IS_COPIED. The older struct cannot say that
// memory is read-only: it always gets a copy.
DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, bool copy = false);
DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

}  // namespace transom
