// SPDX-License-Identifier: Apache-2.0
// Tensors from host memory, and back.
#include "transom/tensor.h"

#include <cstring>

#include "base/error.h"
#include "base/numbers/half.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"
#include "transom/ops.h"

namespace transom {
namespace {

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::kInt8;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::kUInt32;
  else if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  else return DType::kFloat64;
}

template <typename From, typename To>
void convert(const std::vector<std::byte>& bytes, std::vector<To>& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>)
      to[i] = static_cast<To>(static_cast<float>(value));
    else to[i] = static_cast<To>(value);
  }
}

void expect_bytes(size_t found, const Type& type) {
  for (const int64_t extent : type.shape)
    if (extent < 0) fail("a tensor of {} cannot be: extents are not negative", to_string(type));
  const size_t expected = static_cast<size_t>(elements(type.shape)) * size_of(type.dtype);
  if (found != expected) fail("expected {} bytes for a tensor of {}, found {}", expected, to_string(type), found);
}

}  // namespace

template <Element T>
Tensor Tensor::from(std::span<const T> values, Shape shape) {
  return from_bytes(std::as_bytes(values), {dtype_of<T>(), std::move(shape)});
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, Type type) {
  expect_bytes(bytes.size(), type);
  return make_input(std::move(type), default_device()->upload(bytes));
}

Tensor Tensor::from_frozen(std::span<const std::byte> bytes, Type type, std::shared_ptr<const void> owner) {
  expect_bytes(bytes.size(), type);
  return make_input(std::move(type), default_device()->import(bytes, std::move(owner)));
}

Tensor Tensor::scalar(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return from(std::vector<float>{static_cast<float>(value)}, {});
    case DType::kFloat64:
      return from(std::vector<double>{value}, {});
    case DType::kInt64:
      return from(std::vector<int64_t>{static_cast<int64_t>(value)}, {});
    case DType::kInt32:
      return from(std::vector<int32_t>{static_cast<int32_t>(value)}, {});
    default:
      return cast(from(std::vector<float>{static_cast<float>(value)}, {}), dtype);
  }
}

std::vector<std::byte> Tensor::to_bytes() const {
  if (is_in_host_memory(*this)) {
    const std::span<const std::byte> bytes = host_bytes(*this);
    return {bytes.begin(), bytes.end()};
  }
  const auto buffer = buffer_of(*this);
  std::vector<std::byte> bytes(static_cast<size_t>(size()) * size_of(dtype()));
  buffer->read(bytes);
  return bytes;
}

template <Element T>
std::vector<T> Tensor::to_vector() const {
  const std::vector<std::byte> bytes = to_bytes();
  std::vector<T> values(static_cast<size_t>(size()));
  switch (dtype()) {
    case DType::kBool:
    case DType::kUInt8:
      convert<uint8_t>(bytes, values);
      break;
    case DType::kInt8:
      convert<int8_t>(bytes, values);
      break;
    case DType::kInt32:
      convert<int32_t>(bytes, values);
      break;
    case DType::kInt64:
      convert<int64_t>(bytes, values);
      break;
    case DType::kUInt32:
      convert<uint32_t>(bytes, values);
      break;
    case DType::kFloat16:
      convert<Float16>(bytes, values);
      break;
    case DType::kBFloat16:
      convert<BFloat16>(bytes, values);
      break;
    case DType::kFloat32:
      convert<float>(bytes, values);
      break;
    case DType::kFloat64:
      convert<double>(bytes, values);
      break;
  }
  return values;
}

template <Element T>
T Tensor::item() const {
  if (size() != 1) fail("item: expected one element, found {}", to_string(type()));
  return to_vector<T>()[0];
}

Tensor Tensor::detach() const {
  return requires_grad() ? make_tensor(find_operation("stop_gradient"), {*this}) : *this;
}

#define INSTANTIATE(T)                                        \
  template Tensor Tensor::from<T>(std::span<const T>, Shape); \
  template std::vector<T> Tensor::to_vector<T>() const;       \
  template T Tensor::item<T>() const;
INSTANTIATE(uint8_t)
INSTANTIATE(int8_t)
INSTANTIATE(int32_t)
INSTANTIATE(int64_t)
INSTANTIATE(uint32_t)
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace transom
