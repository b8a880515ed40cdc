// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and all_to_all, which is made of them.
#include <algorithm>
#include <cstring>

#include "cpu/collectives/operands.h"

namespace transom::cpu {
namespace {

struct Messages : backend::MessageTable<Messages, transom_communicator> {
  static BufferMessage message_of(const transom_communicator& communicator, transom_binding binding, size_t count,
                                  int32_t dtype, uint32_t peer, bool sends) {
    if (peer >= communicator.ranks() || peer == communicator.rank())
      fail(TRANSOM_INVALID_ARGUMENT, "expected another rank below {}, found {}", communicator.ranks(), peer);
    const size_t bytes = bytes_of(count, dtype);
    return {{checked(binding, bytes), bytes, peer, sends}, binding.buffer};
  }

  static void issue(transom_communicator* communicator, transom_stream* stream, std::vector<BufferMessage> group) {
    std::vector<transom_buffer*> buffers;
    std::vector<Message> messages;
    for (const BufferMessage& item : group) {
      buffers.push_back(item.buffer);
      messages.push_back(item.message);
    }
    submit(communicator, stream, std::move(buffers),
           [messages = std::move(messages)](Transport* transport) { transport->exchange(messages); });
  }

  static void all_to_all(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                         transom_binding to, size_t count, int32_t dtype) {
    const size_t bytes = bytes_of(count, dtype), rank = communicator->rank(), ranks = communicator->ranks();
    std::byte *source = checked(from, bytes * ranks), *target = checked(to, bytes * ranks);
    if (bytes > 0 && source < target + bytes * ranks && target < source + bytes * ranks)
      fail(TRANSOM_INVALID_ARGUMENT, "expected all_to_all from one place to another, found that they overlap");
    submit(communicator, stream, {from.buffer, to.buffer}, [=](Transport* transport) {
      if (bytes > 0) std::memcpy(target + rank * bytes, source + rank * bytes, bytes);
      if (!transport || bytes == 0) return;
      std::vector<Message> messages;
      // Each rank begins with the next one, so that not all send to the same.
      for (size_t step = 1; step < ranks; ++step) {
        const size_t next = (rank + step) % ranks, previous = (rank + ranks - step) % ranks;
        messages.push_back({source + next * bytes, bytes, static_cast<uint32_t>(next), true});
        messages.push_back({target + previous * bytes, bytes, static_cast<uint32_t>(previous), false});
      }
      transport->exchange(messages);
    });
  }
};

}  // namespace

void add_messages(transom_plugin& table) { plugin::fill_table<Messages>(table); }

}  // namespace transom::cpu
