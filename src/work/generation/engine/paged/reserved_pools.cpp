// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/reserved_pools.h"

#include <cstring>
#include <new>

#include "base/error.h"
#include "base/threads/threads.h"
#include "graph/ir/node.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"

namespace transom {

std::vector<Tensor> reserve_pools(const std::vector<Type>& types) {
  const std::shared_ptr<Device> device = default_device();
  if (!device->shares_host_memory()) return {};
  std::vector<Tensor> pools;
  try {
    for (const Type& type : types) {
      const auto bytes = static_cast<size_t>(elements(type.shape)) * size_of(type.dtype);
      pools.push_back(make_input(type, device->allocate(bytes)));
    }
  } catch (const std::bad_alloc&) {
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    return {};
  }
  return pools;
}

void clear_rows(std::span<const Tensor> pools, int64_t begin, int64_t end, int64_t blocks) {
  if (begin >= end) return;
  std::vector<std::span<std::byte>> stretches;
  for (const Tensor& pool : pools) {
    const std::shared_ptr<Buffer> buffer = buffer_of(pool);
    buffer->device().synchronize();
    std::byte* const data = buffer->host_pointer();
    if (!data) fail(ErrorKind::kInternal, "a pool that the host does not reach");
    const size_t block = buffer->bytes() / static_cast<size_t>(blocks);
    stretches.emplace_back(data + static_cast<size_t>(begin) * block, static_cast<size_t>(end - begin) * block);
  }
  // Most of the time goes into pages that are touched for the first time.
  parallel_for(stretches.size(), [&](size_t i) { std::memset(stretches[i].data(), 0, stretches[i].size()); });
}

}  // namespace transom
