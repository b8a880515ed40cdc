// SPDX-License-Identifier: Apache-2.0
// send, receive and the groups of messages between message_group_begin and message_group_end.
#pragma once

#include <utility>
#include <vector>

#include "transom/plugin/error.h"

namespace transom::backend {

// Those of a group that is open; a communicator has an optional one, `group`.
template <typename Message>
struct MessageGroup {
  transom_stream* stream = nullptr;
  std::vector<Message> messages;
};

// The functions of the table for messages. Device has a type Message,
//   static Message message_of(Communicator&, transom_binding, size_t count, int32_t dtype, uint32_t peer, bool sends),
// which checks its arguments, and
//   static void issue(Communicator*, transom_stream*, std::vector<Message>), which moves all of them at the same time.
template <typename Device, typename Communicator>
struct MessageTable {
  static void send(Communicator* communicator, transom_stream* stream, transom_binding from, size_t count,
                   int32_t dtype, uint32_t peer) {
    add(communicator, stream, count, Device::message_of(*communicator, from, count, dtype, peer, true));
  }

  static void receive(Communicator* communicator, transom_stream* stream, transom_binding to, size_t count,
                      int32_t dtype, uint32_t peer) {
    add(communicator, stream, count, Device::message_of(*communicator, to, count, dtype, peer, false));
  }

  static void message_group_begin(Communicator* communicator) {
    if (communicator->group) fail(TRANSOM_INVALID_ARGUMENT, "a group of messages is open already");
    communicator->group.emplace();
  }

  static void message_group_end(Communicator* communicator) {
    if (!communicator->group) fail(TRANSOM_INVALID_ARGUMENT, "no group of messages is open");
    auto group = std::move(*communicator->group);
    communicator->group.reset();
    if (!group.messages.empty()) Device::issue(communicator, group.stream, std::move(group.messages));
  }

 private:
  template <typename Message>
  static void add(Communicator* communicator, transom_stream* stream, size_t count, Message message) {
    if (count == 0) return;  // on both sides
    if (!communicator->group) return Device::issue(communicator, stream, {std::move(message)});
    auto& group = *communicator->group;
    if (group.stream && group.stream != stream)
      fail(TRANSOM_INVALID_ARGUMENT, "expected one stream for a group of messages, found two");
    group.stream = stream;
    group.messages.push_back(std::move(message));
  }
};

}  // namespace transom::backend
