// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/collectives.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "hpu/device/guarded.h"

namespace transom::hpu {
namespace {

// As much as goes in one call; longer messages are cut, as the library's other users do.
constexpr size_t kReducedPiece = size_t{128} << 20, kGatheredPiece = size_t{16} << 20;

Elements summed(size_t count, int32_t dtype) {
  if (dtype == TRANSOM_FLOAT32) return {hcclFloat32, count, 4};
  if (dtype == TRANSOM_BFLOAT16) return {hcclBfloat16, count, 2};
  fail(TRANSOM_UNSUPPORTED, "the cards reduce f32 and bf16 only");
}

hcclRedOp_t operation_of(int32_t reduction) {
  switch (reduction) {
    case TRANSOM_SUM:
      return hcclSum;
    case TRANSOM_MAX:
      return hcclMax;
    case TRANSOM_MIN:
      return hcclMin;
    default:
      fail(TRANSOM_INVALID_ARGUMENT, "expected a reduction of the interface, found number {}", reduction);
  }
}

struct Collectives : Guard {
  static void communicator_id(unsigned char id[256]) {
    const auto* asked = reinterpret_cast<const char*>(id);
    if (const std::string_view name(asked, strnlen(asked, 256)); !name.empty() && name != "hccl")
      fail(TRANSOM_INVALID_ARGUMENT, "ddp_backend: expected hccl for this device, found '{}'", name);
    const auto library = SynapseLibrary::open();
    library->require_collectives();
    hcclUniqueId mine{};
    library->expect_collective(library->hcclGetUniqueId(&mine), "making the id of a communicator");
    const size_t length = mine.length ? mine.length : sizeof mine.internal;
    if (length > 256 - sizeof(uint16_t))
      fail(TRANSOM_UNSUPPORTED, "the id of a communicator has {} bytes, the interface carries {}", length,
           256 - sizeof(uint16_t));
    const auto stored = static_cast<uint16_t>(length);
    std::memset(id, 0, 256);
    std::memcpy(id, &stored, sizeof stored);
    std::memcpy(id + sizeof stored, mine.internal, length);
  }

  static void communicator_create(transom_device* device, const unsigned char id[256], uint32_t rank, uint32_t ranks,
                                  transom_communicator** communicator) {
    device->library().require_collectives();
    if (rank >= ranks) fail(TRANSOM_INVALID_ARGUMENT, "expected a rank below {}, found {}", ranks, rank);
    hcclUniqueId theirs{};
    uint16_t length = 0;
    std::memcpy(&length, id, sizeof length);
    theirs.length = std::min<size_t>(length, 256 - sizeof length);
    std::memcpy(theirs.internal, id + sizeof length, theirs.length);
    auto made = std::make_unique<transom_communicator>(device);
    made->rank = rank;
    made->ranks = ranks;
    const SynapseLibrary& library = device->library();
    library.expect_collective(
        library.hcclCommInitRank(&made->handle, static_cast<int>(ranks), theirs, static_cast<int>(rank)),
        "joining the other ranks");
    *communicator = made.release();
  }

  static void communicator_destroy(transom_communicator* communicator) {
    if (!communicator) return;
    {
      const std::lock_guard lock(communicator->device->mutex);
      try {
        communicator->device->lanes->wait_for_all();
      } catch (const Failure&) {  // the device is lost; the handle goes all the same
      }
    }
    delete communicator;
  }

  static void all_reduce(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype, int32_t reduction) {
    const Elements elements = summed(count, dtype);
    const hcclRedOp_t operation = operation_of(reduction);
    Block &source = checked(from, count * elements.bytes), &target = checked(to, count * elements.bytes);
    if (count == 0) return;
    const SynapseLibrary& library = communicator->device->library();
    submit(communicator, stream, {&source}, {&target},
           [=, handle = communicator->handle, &library, &source, &target](synStreamHandle queue) {
             const size_t piece = kReducedPiece / elements.bytes;
             for (size_t done = 0; done < elements.count; done += piece)
               library.expect_collective(library.hcclAllReduce(at(source, from.offset + done * elements.bytes),
                                                               at(target, to.offset + done * elements.bytes),
                                                               std::min(piece, elements.count - done), elements.type,
                                                               operation, handle, queue),
                                         "all-reduce");
           });
  }

  static void all_gather(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype) {
    const Elements elements = moved(count, dtype);
    const size_t bytes = elements.count * elements.bytes;
    Block &source = checked(from, bytes), &target = checked(to, bytes * communicator->ranks);
    if (count == 0) return;
    const SynapseLibrary& library = communicator->device->library();
    submit(communicator, stream, {&source}, {&target},
           [=, handle = communicator->handle, &library, &source, &target](synStreamHandle queue) {
             library.expect_collective(library.hcclAllGather(at(source, from.offset), at(target, to.offset),
                                                             elements.count, elements.type, handle, queue),
                                       "all-gather");
           });
  }

  static void reduce_scatter(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                             transom_binding to, size_t count, int32_t dtype, int32_t reduction) {
    const Elements elements = summed(count, dtype);
    const hcclRedOp_t operation = operation_of(reduction);
    const size_t bytes = count * elements.bytes;
    Block &source = checked(from, bytes * communicator->ranks), &target = checked(to, bytes);
    if (count == 0) return;
    const SynapseLibrary& library = communicator->device->library();
    submit(communicator, stream, {&source}, {&target},
           [=, handle = communicator->handle, &library, &source, &target](synStreamHandle queue) {
             library.expect_collective(
                 library.hcclReduceScatter(at(source, from.offset), at(target, to.offset), elements.count,
                                           elements.type, operation, handle, queue),
                 "reduce-scatter");
           });
  }

  static void broadcast(transom_communicator* communicator, transom_stream* stream, transom_binding buffer,
                        size_t count, int32_t dtype, uint32_t root) {
    if (root >= communicator->ranks)
      fail(TRANSOM_INVALID_ARGUMENT, "expected a root below {}, found {}", communicator->ranks, root);
    const Elements elements = moved(count, dtype);
    Block& block = checked(buffer, elements.count * elements.bytes);
    if (count == 0) return;
    const SynapseLibrary& library = communicator->device->library();
    submit(communicator, stream, {&block}, {&block},
           [=, handle = communicator->handle, &library, &block](synStreamHandle queue) {
             const size_t piece = kGatheredPiece / elements.bytes;
             for (size_t done = 0; done < elements.count; done += piece) {
               void* const place = at(block, buffer.offset + done * elements.bytes);
               library.expect_collective(library.hcclBroadcast(place, place, std::min(piece, elements.count - done),
                                                               elements.type, static_cast<int>(root), handle, queue),
                                         "broadcast");
             }
           });
  }
};

}  // namespace

void add_collectives(transom_plugin& table) {
  plugin::fill_table<Collectives>(table);
  add_messages(table);
}

}  // namespace transom::hpu
