// SPDX-License-Identifier: Apache-2.0
#include "transom/dlpack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "runtime/tensor/dlpack_structs.h"
#include "runtime/tensor/evaluate.h"

namespace transom {
namespace {

constexpr uint32_t kMajor = 1, kMinor = 0;
constexpr int32_t kMaximumRank = 64;

struct ElementType {
  DType dtype;
  DLDataTypeCode code;
};
constexpr std::array<ElementType, 10> kTypes = {{{DType::kBool, kDLBool},
                                                 {DType::kUInt8, kDLUInt},
                                                 {DType::kInt8, kDLInt},
                                                 {DType::kInt32, kDLInt},
                                                 {DType::kInt64, kDLInt},
                                                 {DType::kUInt32, kDLUInt},
                                                 {DType::kFloat16, kDLFloat},
                                                 {DType::kBFloat16, kDLBfloat},
                                                 {DType::kFloat32, kDLFloat},
                                                 {DType::kFloat64, kDLFloat}}};

DLDataType dlpack_type(DType dtype) {
  for (const auto& each : kTypes)
    if (each.dtype == dtype) return {each.code, static_cast<uint8_t>(8 * size_of(dtype)), 1};
  fail(ErrorKind::kInternal, "to_dlpack: no element type of DLPack is {}", name_of(dtype));
}

DType own_type(const DLDataType& type) {
  for (const auto& each : kTypes)
    if (each.code == type.code && 8 * size_of(each.dtype) == type.bits && type.lanes == 1) return each.dtype;
  fail(ErrorKind::kUnsupported, "from_dlpack: element type of code {}, {} bits and {} lanes is not supported",
       type.code, type.bits, type.lanes);
}

// The type of the tensor, once all that can be checked is.
Type checked_type(const DLTensor& tensor) {
  const DLDeviceType device = tensor.device.device_type;
  if (device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost)
    fail(ErrorKind::kUnsupported, "from_dlpack: expected host memory, found that of a device of type {}; copy it first",
         static_cast<int32_t>(device));
  const DType dtype = own_type(tensor.dtype);
  if (tensor.ndim < 0 || tensor.ndim > kMaximumRank)
    fail("from_dlpack: expected at most {} axes, found {}", kMaximumRank, tensor.ndim);
  if (tensor.ndim > 0 && !tensor.shape) fail("from_dlpack: expected a shape of {} extents, found none", tensor.ndim);
  Shape shape;
  auto bytes = static_cast<int64_t>(size_of(dtype));
  bool empty = false, fits = true;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    const int64_t extent = shape.emplace_back(tensor.shape[axis]);
    if (extent < 0) fail("from_dlpack: expected extents of at least 0, found {}", extent);
    empty |= extent == 0;
    if (extent > 0) fits &= !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  if (!fits) fail("from_dlpack: a tensor of {} does not fit into memory", to_string(shape));
  if (!empty && !tensor.data) fail("from_dlpack: expected the address of {}, found none", to_string(shape));
  return {dtype, std::move(shape)};
}

// Of axes with one element, or of no element at all, the stride says nothing.
bool is_dense(const DLTensor& tensor, const Shape& shape) {
  if (!tensor.strides || elements(shape) == 0) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    if (tensor.strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

std::vector<std::byte> gathered(const std::byte* first, const DLTensor& tensor, const Type& type) {
  const size_t width = size_of(type.dtype);
  std::vector<std::byte> dense(static_cast<size_t>(elements(type.shape)) * width);
  std::vector<int64_t> index(type.shape.size(), 0);
  int64_t offset = 0;
  for (size_t to = 0; to < dense.size(); to += width) {
    std::memcpy(dense.data() + to, first + offset * static_cast<int64_t>(width), width);
    for (size_t axis = index.size(); axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++index[axis] < type.shape[axis]) break;
      offset -= tensor.strides[axis] * type.shape[axis];
      index[axis] = 0;
    }
  }
  return dense;
}

// `owner` calls the deleter.
Tensor import(const DLTensor& tensor, std::shared_ptr<const void> owner) {
  Type type = checked_type(tensor);
  const size_t bytes = static_cast<size_t>(elements(type.shape)) * size_of(type.dtype);
  if (bytes == 0) return Tensor::from_bytes({}, std::move(type));
  const std::byte* first = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (!is_dense(tensor, type.shape)) return Tensor::from_bytes(gathered(first, tensor, type), type);
  const std::span<const std::byte> contents(first, bytes);
  if (reinterpret_cast<uintptr_t>(first) % size_of(type.dtype) != 0) return Tensor::from_bytes(contents, type);
  return make_input(std::move(type), default_device()->borrow(contents, std::move(owner)));
}

template <typename Managed>
std::shared_ptr<Managed> owned(Managed* managed) {
  if (!managed) fail("from_dlpack: expected a tensor, found a null pointer");
  return {managed, [](Managed* each) {
            if (each->deleter) each->deleter(each);
          }};
}

// What an exported struct points to.
template <typename Managed>
struct Exported {
  Managed managed{};
  Shape shape, strides;
  std::shared_ptr<Buffer> buffer;     // of shared memory
  std::shared_ptr<std::byte> copied;  // else
};

std::shared_ptr<std::byte> allocate_aligned(size_t bytes) {
  constexpr auto kAlignment = std::align_val_t{64};
  return {static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kAlignment)),
          [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
}

template <typename Managed>
std::unique_ptr<Exported<Managed>> exported(const Tensor& tensor, bool copy) {
  if (!tensor.defined()) fail("to_dlpack: expected a tensor, found an empty one");
  auto result = std::make_unique<Exported<Managed>>();
  result->shape = tensor.shape();
  result->strides.resize(result->shape.size());
  int64_t stride = 1;
  for (size_t axis = result->shape.size(); axis-- > 0;) {
    result->strides[axis] = stride;
    stride *= std::max<int64_t>(result->shape[axis], 1);
  }
  const std::shared_ptr<Buffer> buffer = buffer_of(tensor);
  buffer->expect_contents();
  Device& device = buffer->device();
  DLTensor& out = result->managed.dl_tensor;
  if (!copy && device.shares_host_memory()) {
    device.synchronize();
    result->buffer = buffer;
    out.data = buffer->host_pointer();
  } else {
    const size_t bytes = static_cast<size_t>(tensor.size()) * size_of(tensor.dtype());
    result->copied = allocate_aligned(bytes);
    buffer->read({result->copied.get(), bytes});
    out.data = result->copied.get();
  }
  out.device = {kDLCPU, 0};
  out.ndim = static_cast<int32_t>(result->shape.size());
  out.dtype = dlpack_type(tensor.dtype());
  out.shape = result->shape.data();
  out.strides = result->strides.data();
  result->managed.manager_ctx = result.get();
  result->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return result;
}

}  // namespace

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  const auto owner = owned(managed);
  if (managed->version.major != kMajor)
    fail(ErrorKind::kUnsupported, "from_dlpack: expected version {} of DLPack, found {}.{}", kMajor,
         managed->version.major, managed->version.minor);
  return import(managed->dl_tensor, owner);
}

Tensor from_dlpack(DLManagedTensor* managed) {
  const auto owner = owned(managed);
  return import(managed->dl_tensor, owner);
}

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, bool copy) {
  auto result = exported<DLManagedTensorVersioned>(tensor, copy);
  result->managed.version = {kMajor, kMinor};
  result->managed.flags = result->buffer ? DLPACK_FLAG_BITMASK_READ_ONLY : DLPACK_FLAG_BITMASK_IS_COPIED;
  return &result.release()->managed;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor) {
  return &exported<DLManagedTensor>(tensor, true).release()->managed;
}

}  // namespace transom
