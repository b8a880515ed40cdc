// SPDX-License-Identifier: Apache-2.0
// Messages between two cards, and all_to_all.
#include <algorithm>

#include "hpu/device/collectives.h"
#include "hpu/device/guarded.h"

namespace transom::hpu {
namespace {

template <typename Function>
void require(Function* function, const char* name) {
  if (!function) fail(TRANSOM_UNSUPPORTED, "this Synapse library has no function {}", name);
}

struct Messages : Guard, backend::MessageTable<Messages, transom_communicator> {
  static Message message_of(const transom_communicator& communicator, transom_binding binding, size_t count,
                            int32_t dtype, uint32_t peer, bool sends) {
    const SynapseLibrary& library = communicator.device->library();
    require(library.hcclSend, "hcclSend");
    require(library.hcclRecv, "hcclRecv");
    require(library.hcclGroupStart, "hcclGroupStart");
    require(library.hcclGroupEnd, "hcclGroupEnd");
    if (peer >= communicator.ranks || peer == communicator.rank)
      fail(TRANSOM_INVALID_ARGUMENT, "expected another rank below {}, found {}", communicator.ranks, peer);
    const Elements elements = moved(count, dtype);
    return {&checked(binding, elements.count * elements.bytes), binding.offset, elements, static_cast<int>(peer),
            sends};
  }

  static void issue(transom_communicator* communicator, transom_stream* stream, std::vector<Message> messages) {
    const SynapseLibrary& library = communicator->device->library();
    std::vector<Block*> reads, writes;
    for (const Message& message : messages) (message.sends ? reads : writes).push_back(message.block);
    submit(communicator, stream, std::move(reads), std::move(writes),
           [&library, handle = communicator->handle, messages = std::move(messages)](synStreamHandle queue) {
             library.expect_collective(library.hcclGroupStart(), "starting a group of messages");
             for (const Message& message : messages) {
               const Elements& elements = message.elements;
               void* const place = at(*message.block, message.offset);
               if (message.sends)
                 library.expect_collective(
                     library.hcclSend(place, elements.count, elements.type, message.peer, handle, queue), "send");
               else
                 library.expect_collective(
                     library.hcclRecv(place, elements.count, elements.type, message.peer, handle, queue), "receive");
             }
             library.expect_collective(library.hcclGroupEnd(), "ending a group of messages");
           });
  }

  static void all_to_all(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype) {
    const SynapseLibrary& library = communicator->device->library();
    require(library.hcclAlltoAll, "hcclAlltoAll");
    const Elements elements = moved(count, dtype);  // of each rank
    const size_t bytes = elements.count * elements.bytes * communicator->ranks;
    Block &source = checked(from, bytes), &target = checked(to, bytes);
    if (from.buffer == to.buffer && from.offset < to.offset + bytes && to.offset < from.offset + bytes)
      fail(TRANSOM_INVALID_ARGUMENT, "expected all_to_all from one place to another, found that they overlap");
    if (count == 0) return;
    submit(communicator, stream, {&source}, {&target},
           [=, &library, &source, &target, handle = communicator->handle,
            ranks = communicator->ranks](synStreamHandle queue) {
             library.expect_collective(library.hcclAlltoAll(at(source, from.offset), at(target, to.offset),
                                                            elements.count * ranks, elements.type, handle, queue),
                                       "all-to-all");
           });
  }
};

}  // namespace

void add_messages(transom_plugin& table) { plugin::fill_table<Messages>(table); }

}  // namespace transom::hpu
