// SPDX-License-Identifier: Apache-2.0
// The collectives of gloo, as PyTorch uses them, over TCP.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/collectives/transport.h"
#include "cpu/transports/group_id.h"

namespace transom::cpu {
namespace {

// Up to here every pair of ranks is connected; beyond, those that the collectives below use: the neighbours of a ring,
// and those of a tree from any root, whose ranks differ by powers of two.
constexpr int kFullMesh = 64;

std::set<int> peers_of(int rank, int ranks) {
  std::set<int> peers;
  if (ranks <= kFullMesh) {
    for (int other = 0; other < ranks; ++other) peers.insert(other);
  } else {
    for (int distance = 1; distance < ranks; distance *= 2) {
      peers.insert((rank + distance) % ranks);
      peers.insert((rank + ranks - distance) % ranks);
    }
  }
  peers.erase(rank);
  return peers;
}

// gloo writes to connections that a lost rank has closed without MSG_NOSIGNAL, and the signal would end the process of
// the host. While it lives, this thread and those that it starts do without; what came meanwhile is forgotten.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &signal(), &before_);
  }
  ~NoBrokenPipe() {
    const timespec none{0, 0};
    while (!was_pending_ && sigtimedwait(&signal(), nullptr, &none) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  static const sigset_t& signal() {
    static const sigset_t set = [] {
      sigset_t made;
      sigemptyset(&made);
      sigaddset(&made, SIGPIPE);
      return made;
    }();
    return set;
  }
  sigset_t before_;
  bool was_pending_;
};

// Connections to other ranks. Each pair of ranks has an address of its own on either side.
class Mesh : public gloo::Context {
 public:
  Mesh(const GroupId& id, uint32_t rank, uint32_t ranks, const Exchange& exchange)
      : gloo::Context(static_cast<int>(rank), static_cast<int>(ranks)) {
    const NoBrokenPipe no_signal;
    gloo::transport::tcp::attr attributes;
    attributes.hostname = own_address(id);
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    setTimeout(std::chrono::seconds(id.timeout));
    transportContext_ = device_->createContext(this->rank, size);
    transportContext_->setTimeout(std::chrono::seconds(id.timeout));
    const std::set<int> peers = peers_of(this->rank, size);
    std::vector<Bytes> addresses(ranks);
    for (const int other : peers) {
      auto& pair = transportContext_->createPair(other);
      pair->setLocalRank(this->rank);
      addresses[static_cast<size_t>(other)] = pair->address().bytes();
    }
    const std::vector<Bytes> met = exchange(addresses);
    for (const int other : peers) {
      const Bytes& address = met.at(static_cast<size_t>(other));
      if (address.size() != addresses[static_cast<size_t>(other)].size())
        throw std::runtime_error("gloo: rank " + std::to_string(other) + " brought no address");
      transportContext_->getPair(other)->connect(address);
    }
  }
};

template <typename T>
void combine(void* out, const void* a, const void* b, size_t count, transom_reduction reduction) {
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  for (size_t i = 0; i < count; ++i) {
    if (reduction == TRANSOM_SUM) to[i] = x[i] + y[i];
    else if (x[i] != x[i] || y[i] != y[i]) to[i] = x[i] != x[i] ? x[i] : y[i];  // NaN stays
    else to[i] = reduction == TRANSOM_MAX ? std::max(x[i], y[i]) : std::min(x[i], y[i]);
  }
}

class Gloo : public Transport {
 public:
  Gloo(const GroupId& id, uint32_t rank, uint32_t ranks, const Exchange& exchange)
      : context_(std::make_shared<Mesh>(id, rank, ranks, exchange)) {}

  bool reaches_all() const override { return context_->size <= kFullMesh; }

  void all_reduce(void* data, size_t count, transom_dtype dtype, transom_reduction reduction) override {
    const NoBrokenPipe no_signal;
    switch (dtype) {
      case TRANSOM_FLOAT32:
        return reduce<float>(data, count, reduction);
      case TRANSOM_FLOAT64:
        return reduce<double>(data, count, reduction);
      case TRANSOM_INT32:
        return reduce<int32_t>(data, count, reduction);
      case TRANSOM_INT64:
        return reduce<int64_t>(data, count, reduction);
      default:
        throw std::runtime_error("gloo: a type that is not reduced");
    }
  }

  void all_gather(const void* from, void* to, size_t bytes) override {
    if (bytes == 0) return;
    const NoBrokenPipe no_signal;
    gloo::AllgatherOptions options(context_);
    std::vector<char> mine(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    options.setInput(mine.data(), bytes);
    options.setOutput(static_cast<char*>(to), bytes * static_cast<size_t>(context_->size));
    options.setTag(tag_++);
    gloo::allgather(options);
  }

  void broadcast(void* data, size_t bytes, uint32_t root) override {
    const NoBrokenPipe no_signal;
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(data), bytes);
    options.setRoot(static_cast<int>(root));
    options.setTag(tag_++);
    gloo::broadcast(options);
  }

  void exchange(std::span<const Message> messages) override {
    const NoBrokenPipe no_signal;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> buffers;
    for (const Message& message : messages) {
      if (!context_->getPair(static_cast<int>(message.peer)))
        throw std::runtime_error("gloo: expected a connection to rank " + std::to_string(message.peer) +
                                 ", found none");
      auto& buffer = buffers.emplace_back(context_->createUnboundBuffer(message.data, message.bytes));
      uint32_t& number = (message.sends ? sent_ : received_)[message.peer];
      const auto slot = gloo::Slot::build(kMessageSlots, number++);
      if (message.sends) buffer->send(static_cast<int>(message.peer), slot);
      else buffer->recv(static_cast<int>(message.peer), slot);
    }
    for (size_t i = 0; i < messages.size(); ++i)
      if (!(messages[i].sends ? buffers[i]->waitSend() : buffers[i]->waitRecv()))
        throw std::runtime_error("gloo: a message was given up");
  }

  void abort() override {
    const NoBrokenPipe no_signal;
    context_->closeConnections();
  }

 private:
  template <typename T>
  void reduce(void* data, size_t count, transom_reduction reduction) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(static_cast<T*>(data), count);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        [=](void* out, const void* a, const void* b, size_t n) { combine<T>(out, a, b, n, reduction); });
    options.setTag(tag_++);
    gloo::allreduce(options);
  }

  std::shared_ptr<Mesh> context_;
  uint32_t tag_ = 0;
  static constexpr uint8_t kMessageSlots = 0x80;  // beyond those of gloo's own collectives
  std::map<uint32_t, uint32_t> sent_, received_;  // messages so far, by rank
};

void make_id(const GroupOptions& options, unsigned char* id, size_t bytes) {
  write_id(make_group_id(options), id, bytes);
}

Transport* join(const unsigned char* id, size_t bytes, uint32_t rank, uint32_t ranks, const Exchange& exchange) {
  return new Gloo(read_id(id, bytes), rank, ranks, exchange);
}

bool launched() { return true; }

}  // namespace
}  // namespace transom::cpu

extern "C" TRANSOM_PLUGIN_EXPORT const transom::cpu::TransportLibrary* transom_transport() {
  static const transom::cpu::TransportLibrary library{transom::cpu::make_id, transom::cpu::join,
                                                      transom::cpu::launched};
  return &library;
}
