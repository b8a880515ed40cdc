// SPDX-License-Identifier: Apache-2.0
// A place among several devices, and the collectives between them, as work of a stream.
#include <cstring>
#include <optional>
#include <string_view>

#include "gpu/api/driver.h"
#include "gpu/collectives/nccl.h"
#include "gpu/device/device.h"
#include "transom/plugin/messages.h"
#include "transom/plugin/types.h"

namespace transom::gpu {
namespace {

struct Message {
  std::byte* memory;
  size_t count;
  int type;
  int peer;
  bool sends;
};

int type_of_nccl(int32_t dtype) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
      return kNcclUint8;
    case TRANSOM_INT8:
      return kNcclInt8;
    case TRANSOM_INT32:
      return kNcclInt32;
    case TRANSOM_INT64:
      return kNcclInt64;
    case TRANSOM_UINT32:
      return kNcclUint32;
    case TRANSOM_FLOAT16:
      return kNcclFloat16;
    case TRANSOM_BFLOAT16:
      return kNcclBfloat16;
    case TRANSOM_FLOAT32:
      return kNcclFloat32;
    case TRANSOM_FLOAT64:
      return kNcclFloat64;
    default:
      fail(TRANSOM_INVALID_ARGUMENT, "expected an element type of the interface, found number {}", dtype);
  }
}

int operation_of_nccl(int32_t reduction, int32_t dtype) {
  if (dtype == TRANSOM_BOOL) fail(TRANSOM_UNSUPPORTED, "expected numbers to reduce, found bool");
  switch (reduction) {
    case TRANSOM_SUM:
      return kNcclSum;
    case TRANSOM_MAX:
      return kNcclMax;
    case TRANSOM_MIN:
      return kNcclMin;
    default:
      fail(TRANSOM_INVALID_ARGUMENT, "expected a reduction of the interface, found number {}", reduction);
  }
}

size_t bytes_of(size_t count, int32_t dtype) {
  return count * backend::element_size(static_cast<transom_dtype>(dtype));
}

}  // namespace
}  // namespace transom::gpu

struct transom_communicator : Handle {
  explicit transom_communicator(transom_device* d) : device(d), last(d->context->make_event()) {}

  transom_device* device;
  uint32_t rank = 0, ranks = 1;
  std::mutex mutex;                           // guards `handle` against abort, which comes from any thread
  void* handle = nullptr;                     // null: given up
  std::unique_ptr<transom::gpu::Event> last;  // behind what was issued
  bool issued = false;
  std::optional<transom::backend::MessageGroup<transom::gpu::Message>> group;
};

namespace transom::gpu {
namespace {

// Calls issue(library, handle, stream) as work of the stream.
template <typename Issue>
void submit(transom_communicator* communicator, transom_stream* stream, const char* what, Issue&& issue) {
  const Nccl& nccl = Nccl::open();
  make_current(*communicator->device->context);
  {
    const std::lock_guard lock(communicator->mutex);
    if (!communicator->handle)
      fail(TRANSOM_DEVICE_LOST, "{}: the group was given up, since a rank of it is gone", what);
    nccl.check(issue(nccl, communicator->handle, native_stream(stream->queue())), what);
    if (!stream->marked.capturing) {
      stream->queue().record(*communicator->last);
      communicator->issued = true;
    }
  }
  stream->issued();
}

// What another rank's end has done to work that was queued.
void expect_whole(transom_communicator& communicator) {
  const std::lock_guard lock(communicator.mutex);
  if (!communicator.handle) fail(TRANSOM_DEVICE_LOST, "the group was given up, since a rank of it is gone");
  int error = 0;
  const Nccl& nccl = Nccl::open();
  nccl.check(nccl.CommGetAsyncError(communicator.handle, &error), "asking for errors of a group");
  constexpr int kInProgress = 7;
  if (error && error != kInProgress) fail(TRANSOM_DEVICE_LOST, "a rank of the group, or the way to it, is gone");
}

struct Collectives : backend::MessageTable<Collectives, transom_communicator> {
  template <typename Work, typename First, typename... Rest>
  static transom_status guard(transom_error* error, Work&& work, First first, Rest&&...) noexcept {
    transom_device* device = nullptr;
    if constexpr (std::is_same_v<First, transom_communicator*>) device = first ? first->device : nullptr;
    return guarded_on(device, error, std::forward<Work>(work));
  }

  static void communicator_id(unsigned char id[256]) {
    const auto* asked = reinterpret_cast<const char*>(id);
    const std::string_view name(asked, strnlen(asked, 256)), own = runtime().name();
    if (!name.empty() && name != "nccl" && !(name == "rccl" && own == "rocm"))
      fail(TRANSOM_INVALID_ARGUMENT, "ddp_backend: expected {} for this device, found '{}'",
           own == "rocm" ? "nccl or rccl" : "nccl", name);
    const Nccl& nccl = Nccl::open();
    NcclId made{};
    nccl.check(nccl.GetUniqueId(&made), "making the id of a group");
    std::memset(id, 0, 256);
    std::memcpy(id, made.internal, sizeof made.internal);
  }

  static void communicator_create(transom_device* device, const unsigned char id[256], uint32_t rank, uint32_t ranks,
                                  transom_communicator** communicator) {
    if (rank >= ranks) fail(TRANSOM_INVALID_ARGUMENT, "expected a rank below {}, found {}", ranks, rank);
    const Nccl& nccl = Nccl::open();
    NcclId theirs{};
    std::memcpy(theirs.internal, id, sizeof theirs.internal);
    auto made = std::make_unique<transom_communicator>(device);
    made->rank = rank;
    made->ranks = ranks;
    make_current(*device->context);
    nccl.check(nccl.CommInitRank(&made->handle, static_cast<int>(ranks), theirs, static_cast<int>(rank)),
               "joining the other ranks");
    device->watch(made.get(), [all = made.get()] { expect_whole(*all); });
    *communicator = made.release();
  }

  static void communicator_destroy(transom_communicator* communicator) {
    if (!communicator) return;
    transom_device& device = *communicator->device;
    device.forget(communicator);
    try {
      make_current(*device.context);
      if (communicator->issued) device.context->synchronize(*communicator->last);
    } catch (const backend::Failure&) {  // the device is lost; the handle goes all the same
    }
    if (communicator->handle) Nccl::open().CommDestroy(communicator->handle);
    delete communicator;
  }

  // Waits of kernels for other ranks end; what they left is of no use.
  static void communicator_abort(transom_communicator* communicator) {
    const std::lock_guard lock(communicator->mutex);
    if (void* handle = std::exchange(communicator->handle, nullptr)) Nccl::open().CommAbort(handle);
  }

  static void all_reduce(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype, int32_t reduction) {
    const int type = type_of_nccl(dtype), operation = operation_of_nccl(reduction, dtype);
    const std::byte* source = transom_buffer::at(from, bytes_of(count, dtype));
    std::byte* target = transom_buffer::at(to, bytes_of(count, dtype));
    if (count == 0) return;
    submit(communicator, stream, "all-reduce", [&](const Nccl& nccl, void* handle, void* queue) {
      return nccl.AllReduce(source, target, count, type, operation, handle, queue);
    });
  }

  static void all_gather(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype) {
    const int type = type_of_nccl(dtype);
    const std::byte* source = transom_buffer::at(from, bytes_of(count, dtype));
    std::byte* target = transom_buffer::at(to, bytes_of(count, dtype) * communicator->ranks);
    if (count == 0) return;
    submit(communicator, stream, "all-gather", [&](const Nccl& nccl, void* handle, void* queue) {
      return nccl.AllGather(source, target, count, type, handle, queue);
    });
  }

  static void reduce_scatter(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                             transom_binding to, size_t count, int32_t dtype, int32_t reduction) {
    const int type = type_of_nccl(dtype), operation = operation_of_nccl(reduction, dtype);
    const std::byte* source = transom_buffer::at(from, bytes_of(count, dtype) * communicator->ranks);
    std::byte* target = transom_buffer::at(to, bytes_of(count, dtype));
    if (count == 0) return;
    submit(communicator, stream, "reduce-scatter", [&](const Nccl& nccl, void* handle, void* queue) {
      return nccl.ReduceScatter(source, target, count, type, operation, handle, queue);
    });
  }

  static void broadcast(transom_communicator* communicator, transom_stream* stream, transom_binding buffer,
                        size_t count, int32_t dtype, uint32_t root) {
    if (root >= communicator->ranks)
      fail(TRANSOM_INVALID_ARGUMENT, "expected a root below {}, found {}", communicator->ranks, root);
    const int type = type_of_nccl(dtype);
    std::byte* place = transom_buffer::at(buffer, bytes_of(count, dtype));
    if (count == 0) return;
    submit(communicator, stream, "broadcast", [&](const Nccl& nccl, void* handle, void* queue) {
      return nccl.Broadcast(place, place, count, type, static_cast<int>(root), handle, queue);
    });
  }

  static void all_to_all(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype) {
    const int type = type_of_nccl(dtype);
    const size_t part = bytes_of(count, dtype), bytes = part * communicator->ranks;
    std::byte* source = transom_buffer::at(from, bytes);
    std::byte* target = transom_buffer::at(to, bytes);
    if (count == 0) return;
    if (source < target + bytes && target < source + bytes)
      fail(TRANSOM_INVALID_ARGUMENT, "expected all_to_all from one place to another, found that they overlap");
    std::vector<Message> messages;
    for (uint32_t peer = 0; peer < communicator->ranks; ++peer)
      for (const bool sends : {true, false})
        messages.push_back({(sends ? source : target) + peer * part, count, type, static_cast<int>(peer), sends});
    issue(communicator, stream, std::move(messages));
  }

  static Message message_of(const transom_communicator& communicator, transom_binding binding, size_t count,
                            int32_t dtype, uint32_t peer, bool sends) {
    if (peer >= communicator.ranks || peer == communicator.rank)
      fail(TRANSOM_INVALID_ARGUMENT, "expected another rank below {}, found {}", communicator.ranks, peer);
    return {transom_buffer::at(binding, bytes_of(count, dtype)), count, type_of_nccl(dtype), static_cast<int>(peer),
            sends};
  }

  static void issue(transom_communicator* communicator, transom_stream* stream, std::vector<Message> messages) {
    submit(communicator, stream, "messages", [&](const Nccl& nccl, void* handle, void* queue) {
      int result = nccl.GroupStart();
      for (const Message& one : messages) {
        if (result) break;
        result = one.sends ? nccl.Send(one.memory, one.count, one.type, one.peer, handle, queue)
                           : nccl.Recv(one.memory, one.count, one.type, one.peer, handle, queue);
      }
      const int ended = nccl.GroupEnd();
      return result ? result : ended;
    });
  }
};

}  // namespace

void DriverRuntime::add_collectives(transom_plugin& table) const { plugin::fill_table<Collectives>(table); }

}  // namespace transom::gpu
