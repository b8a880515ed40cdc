// SPDX-License-Identifier: Apache-2.0
// The collectives of gloo, as PyTorch uses them, over TCP. Messages between ranks of one machine go another way
// (near_mail.h): who receives one reads it where it lies.
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
#include "cpu/transports/near_mail.h"
#include "cpu/transports/near_memory.h"

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
      : context_(std::make_shared<Mesh>(id, rank, ranks, exchange)), near_(ranks) {
    if (reaches_all() && ranks > 1) greet(id.timeout);
  }

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
    if (all_near_) return gather_directly(from, to, bytes);
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
    std::vector<Message> near;
    std::vector<std::pair<Buffer, bool>> far;  // and whether it is sent
    for (const Message& message : messages) {
      if (near_[message.peer]) near.push_back(message);
      else far.emplace_back(post(message), message.sends);
    }
    if (!near.empty()) mail_->exchange(near);
    for (const auto& [buffer, sends] : far)
      if (!(sends ? buffer->waitSend() : buffer->waitRecv())) throw std::runtime_error("gloo: a message was given up");
  }

  void abort() override {
    const NoBrokenPipe no_signal;
    if (mail_) mail_->abort();
    context_->closeConnections();
  }

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  Buffer post(const Message& message) {
    if (!context_->getPair(static_cast<int>(message.peer)))
      throw std::runtime_error("gloo: expected a connection to rank " + std::to_string(message.peer) + ", found none");
    Buffer buffer = context_->createUnboundBuffer(message.data, message.bytes);
    const auto slot = gloo::Slot::build(kMessageSlots, (message.sends ? sent_ : received_)[message.peer]++);
    if (message.sends) buffer->send(static_cast<int>(message.peer), slot);
    else buffer->recv(static_cast<int>(message.peer), slot);
    return buffer;
  }

  // The ranks tell each other where they can be read, and then whether they could: both sides must know.
  void greet(uint32_t timeout) {
    const auto rank = static_cast<uint32_t>(context_->rank), ranks = static_cast<uint32_t>(context_->size);
    Greeting mine;
    fill_greeting(mine);
    try {
      mail_ = std::make_unique<NearMail>(rank, ranks, timeout);
      mine.file = mail_->file();
    } catch (const std::runtime_error&) {  // then all goes over TCP
    }
    std::vector<Greeting> theirs(ranks);
    std::vector<char> i_can(ranks), they_can(ranks);
    const auto swap = [&](auto* out, auto* in, bool same) {
      std::vector<Message> messages;
      for (uint32_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        messages.push_back({reinterpret_cast<std::byte*>(out + (same ? 0 : peer)), sizeof *out, peer, true});
        messages.push_back({reinterpret_cast<std::byte*>(in + peer), sizeof *in, peer, false});
      }
      exchange(messages);
    };
    swap(&mine, theirs.data(), true);
    for (uint32_t peer = 0; peer < ranks; ++peer)
      if (peer != rank && mail_ && is_near(theirs[peer]))
        i_can[peer] = mail_->open_box(peer, theirs[peer].process, static_cast<int>(theirs[peer].file)) ? 1 : 0;
    swap(i_can.data(), they_can.data(), false);
    std::vector<bool> near(ranks);
    all_near_ = true;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      near[peer] = i_can[peer] != 0 && they_can[peer] != 0;
      all_near_ &= near[peer];
      if (!near[peer] && mail_) mail_->forget(peer);
    }
    // Whether all_gather goes by messages must be one decision of all.
    float apart = all_near_ ? 0 : 1;
    all_reduce(&apart, 1, TRANSOM_FLOAT32, TRANSOM_MAX);
    all_near_ = apart == 0;
    near_ = std::move(near);
    if (mail_) mail_->close_file();  // all have opened it
  }

  void gather_directly(const void* from, void* to, size_t bytes) {
    const auto rank = static_cast<uint32_t>(context_->rank), ranks = static_cast<uint32_t>(context_->size);
    auto* target = static_cast<std::byte*>(to);
    auto* mine = static_cast<std::byte*>(const_cast<void*>(from));
    std::vector<Message> messages;
    for (uint32_t step = 1; step < ranks; ++step) {
      const uint32_t receiver = (rank + step) % ranks, sender = (rank + ranks - step) % ranks;
      messages.push_back({mine, bytes, receiver, true});
      messages.push_back({target + sender * bytes, bytes, sender, false});
    }
    if (mine != target + rank * bytes) std::memmove(target + rank * bytes, mine, bytes);
    exchange(messages);
  }

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
  std::unique_ptr<NearMail> mail_;
  std::vector<bool> near_;  // ranks that read our memory as we read theirs
  bool all_near_ = false;
  std::map<uint32_t, uint32_t> sent_, received_;  // messages so far over TCP, by rank
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
