// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/host_values.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/tensor/evaluate.h"

namespace transom {
namespace {

struct HostValues : Storage {
  std::vector<std::byte> bytes;
  bool taken = false;
};

HostValues* find_host_values(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.node()->computed(tensor.output())) return nullptr;
  return dynamic_cast<HostValues*>(tensor.node()->storage(tensor.output()).get());
}

}  // namespace

Tensor in_host_memory(std::vector<std::byte> bytes, const Type& type) {
  const size_t expected = static_cast<size_t>(elements(type.shape)) * size_of(type.dtype);
  if (bytes.size() != expected)
    fail(ErrorKind::kInternal, "expected {} bytes for a tensor of {}, found {}", expected, to_string(type),
         bytes.size());
  auto values = std::make_shared<HostValues>();
  values->bytes = std::move(bytes);
  return make_input(type, std::move(values));
}

Tensor in_host_memory(const Tensor& tensor, const Tensor& reused) {
  std::vector<std::byte> bytes;
  if (HostValues* before = find_host_values(reused); before && !before->taken) {
    bytes = std::move(before->bytes);
    before->taken = true;
  }
  bytes.resize(static_cast<size_t>(tensor.size()) * size_of(tensor.dtype()));
  buffer_of(tensor)->read(bytes);
  return in_host_memory(std::move(bytes), tensor.type());
}

bool is_in_host_memory(const Tensor& tensor) { return find_host_values(tensor) != nullptr; }

std::span<const std::byte> host_bytes(const Tensor& tensor) {
  const HostValues* values = find_host_values(tensor);
  if (!values) fail(ErrorKind::kInternal, "expected a tensor in host memory, found one on a device");
  if (values->taken)
    fail(ErrorKind::kDevice, "a tensor of {} is lost: an update that failed had taken its host memory",
         to_string(tensor.type()));
  return values->bytes;
}

}  // namespace transom
