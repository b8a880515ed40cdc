// SPDX-License-Identifier: Apache-2.0
// Messages between ranks whose memory can be read (near_memory.h): the sender says where one lies, the receiver reads
// it and answers, both by words in memory that the ranks share. Sockets have a thread that takes turns with those that
// compute, and gloo's asks again and again while another holds its lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/collectives/transport.h"

namespace transom::cpu {

class NearMail {
 public:
  // Throws std::runtime_error where the system has no such memory.
  NearMail(uint32_t rank, uint32_t ranks, uint32_t timeout);
  // The others see that this rank is gone.
  ~NearMail();
  NearMail(const NearMail&) = delete;
  NearMail& operator=(const NearMail&) = delete;

  // The file of the shared memory, of this process, for open_box of others; until all have called it.
  int file() const { return file_; }
  void close_file();
  // Whether that rank's memory could be opened. `process` is where its messages are read.
  bool open_box(uint32_t peer, int64_t process, int file);
  // Of a rank that is a thread of this process: the memory as it is mapped there, so that the thread sanitizer knows it
  // for the same.
  void open_box(uint32_t peer, const NearMail& other);
  void forget(uint32_t peer);

  // All of these are from or to ranks that have opened each other's. From one thread; throws std::runtime_error where a
  // rank is gone, does not come in time or sends another number of bytes, or after abort().
  void exchange(std::span<const Message> messages);
  void abort();  // from any thread

 private:
  static constexpr uint32_t kPlaces = 64;  // that wait to be read
  struct Place {
    uint64_t begin, bytes;
  };
  // What one rank says to another; the words are written by it alone.
  struct alignas(64) Words {
    std::atomic<uint64_t> sent, answered, gone;
    Place places[kPlaces];
  };
  struct Box {
    alignas(64) std::atomic<uint32_t> bell;  // counts changes of what others say
    Words from[1];                           // each rank
  };
  struct Peer {
    std::shared_ptr<Box> box;
    int64_t process = 0;
    uint64_t sent = 0, received = 0;
  };

  size_t box_bytes() const { return sizeof(Box) + sizeof(Words) * (peers_.size() - 1); }
  std::shared_ptr<Box> map(int file) const;
  Words& said_by(uint32_t peer) { return own_->from[peer]; }
  Words& said_to(uint32_t peer) { return peers_[peer].box->from[rank_]; }
  void ring(Box& box);
  void leave();
  bool step(const Message& message, uint64_t& number);
  void wait(uint32_t heard, std::span<const Message> messages, const std::vector<uint64_t>& numbers);

  uint32_t rank_;
  int64_t timeout_;  // seconds
  int file_ = -1;
  std::shared_ptr<Box> own_;
  std::vector<Peer> peers_;
  std::atomic<bool> aborted_{false};
};

}  // namespace transom::cpu
