// SPDX-License-Identifier: Apache-2.0
// A place among several cards, and the collectives between them, over the lane of the network.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "hpu/device/device.h"
#include "hpu/lowering/node.h"
#include "transom/plugin/messages.h"

namespace transom::hpu {

void add_collectives(transom_plugin& table);
void add_messages(transom_plugin& table);  // all_to_all, send, receive

// Elements of other types than these two are moved, never summed, as words of them.
struct Elements {
  hcclDataType_t type;
  size_t count, bytes;  // bytes of one
};

inline Elements moved(size_t count, int32_t dtype) {
  const size_t bytes = count * element_size(static_cast<transom_dtype>(dtype));
  if (bytes % 4 == 0) return {hcclFloat32, bytes / 4, 4};
  if (bytes % 2 == 0) return {hcclBfloat16, bytes / 2, 2};
  fail(TRANSOM_UNSUPPORTED, "the cards move an even number of bytes, found {}", bytes);
}

inline Block& checked(const transom_binding& binding, size_t bytes) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer, found none");
  backend::expect_inside(binding, binding.buffer->bytes, bytes);
  return *binding.buffer->block;
}

inline void* at(const Block& block, size_t offset) { return reinterpret_cast<void*>(block.address + offset); }

struct Message {
  Block* block;
  size_t offset;
  Elements elements;
  int peer;
  bool sends;
};

}  // namespace transom::hpu

struct transom_communicator : DeviceHandle {
  using DeviceHandle::DeviceHandle;
  ~transom_communicator() {
    if (handle) device->library().hcclCommDestroy(handle);
  }
  hcclComm_t handle = nullptr;
  uint32_t rank = 0, ranks = 1;
  std::optional<transom::backend::MessageGroup<transom::hpu::Message>> group;
};

namespace transom::hpu {

// Queues call(stream) after all that touches the blocks, now or at every replay.
template <typename Call>
void submit(transom_communicator* communicator, transom_stream* stream, std::vector<Block*> reads,
            std::vector<Block*> writes, Call&& call) {
  const auto work = [communicator, reads = std::move(reads), writes = std::move(writes), call](transom_stream& queue) {
    transom_device& device = *communicator->device;
    const std::lock_guard lock(device.mutex);
    queue.add(Lane::kNetwork, device.lanes->submit(Lane::kNetwork, reads, writes, call));
  };
  if (stream->recording) stream->recording->work.push_back(work);
  else work(*stream);
}

}  // namespace transom::hpu
