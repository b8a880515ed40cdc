// SPDX-License-Identifier: Apache-2.0
#include "cpu/transports/near_mail.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>

#include "cpu/transports/near_memory.h"

namespace transom::cpu {
namespace {

constexpr uint64_t kNotSent = 0, kDone = UINT64_MAX;

std::runtime_error lost(uint32_t peer, const std::string& why) {
  return std::runtime_error("rank " + std::to_string(peer) + " of the group " + why);
}

}  // namespace

NearMail::NearMail(uint32_t rank, uint32_t ranks, uint32_t timeout) : rank_(rank), timeout_(timeout), peers_(ranks) {
  file_ = ::memfd_create("transom-ranks", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(box_bytes())) != 0 || !(own_ = map(file_))) {
    close_file();
    throw std::runtime_error(std::string("memory that ranks share: ") + std::strerror(errno));
  }
}

NearMail::~NearMail() {
  leave();
  close_file();
}

void NearMail::close_file() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

std::shared_ptr<NearMail::Box> NearMail::map(int file) const {
  void* memory = ::mmap(nullptr, box_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Box*>(memory), [bytes = box_bytes()](Box* box) { ::munmap(box, bytes); }};  // zeros: a new file
}

bool NearMail::open_box(uint32_t peer, int64_t process, int file) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return false;
  peers_[peer].box = ::lseek(opened, 0, SEEK_END) == static_cast<off_t>(box_bytes()) ? map(opened) : nullptr;
  peers_[peer].process = process;
  ::close(opened);
  return peers_[peer].box != nullptr;
}

void NearMail::open_box(uint32_t peer, const NearMail& other) { peers_[peer] = {other.own_, ::getpid()}; }

void NearMail::forget(uint32_t peer) { peers_[peer].box.reset(); }

void NearMail::ring(Box& box) {
  box.bell.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&box.bell), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void NearMail::leave() {
  for (uint32_t peer = 0; peer < peers_.size(); ++peer)
    if (peers_[peer].box) {
      said_to(peer).gone.store(1, std::memory_order_release);
      ring(*peers_[peer].box);
    }
}

void NearMail::abort() {
  aborted_ = true;
  leave();
  ring(*own_);
}

// Goes on with a message as far as it can; returns whether it did. `number` of one that is sent: the answer that ends
// it.
bool NearMail::step(const Message& message, uint64_t& number) {
  Peer& peer = peers_[message.peer];
  const Words& said = said_by(message.peer);
  if (!message.sends) {
    if (said.sent.load(std::memory_order_acquire) <= peer.received) return false;
    const Place& place = said.places[peer.received % kPlaces];
    if (place.bytes != message.bytes)
      throw lost(message.peer, "sends " + std::to_string(place.bytes) + " bytes where " +
                                   std::to_string(message.bytes) + " were expected: the ranks do not compute the same");
    read_memory(peer.process, place.begin, message.data, message.bytes);
    // One that gave up does not wait for the answer: what was read may be something else by now.
    if (said.gone.load(std::memory_order_acquire) != 0) throw lost(message.peer, "is gone");
    said_to(message.peer).answered.store(++peer.received, std::memory_order_release);
    ring(*peer.box);
    number = kDone;
    return true;
  }
  const uint64_t answered = said.answered.load(std::memory_order_acquire);
  if (number == kNotSent) {
    if (peer.sent - answered >= kPlaces) return false;
    Words& mine = said_to(message.peer);
    mine.places[peer.sent % kPlaces] = {reinterpret_cast<uintptr_t>(message.data), message.bytes};
    number = ++peer.sent;
    mine.sent.store(number, std::memory_order_release);
    ring(*peer.box);
    return true;
  }
  if (answered < number) return false;
  number = kDone;
  return true;
}

void NearMail::exchange(std::span<const Message> messages) {
  std::vector<uint64_t> numbers(messages.size(), kNotSent);
  // Of each rank: whether it is gone; messages from it and to it go in their order.
  struct State {
    bool gone = false, from_waits = false, to_waits = false;
  };
  std::vector<State> states(peers_.size());
  size_t left = messages.size();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_);
  while (left > 0) {
    const uint32_t heard = own_->bell.load(std::memory_order_seq_cst);
    if (aborted_) throw std::runtime_error("the group was given up");
    for (const Message& message : messages)  // what it said before it went still counts
      states[message.peer] = {said_by(message.peer).gone.load(std::memory_order_acquire) != 0};
    bool moved = false;
    for (size_t i = 0; i < messages.size(); ++i) {
      State& state = states[messages[i].peer];
      bool& waits = messages[i].sends ? state.to_waits : state.from_waits;
      if (numbers[i] == kDone || (waits && numbers[i] == kNotSent)) continue;
      while (numbers[i] != kDone && step(messages[i], numbers[i])) moved = true;
      if (numbers[i] == kDone) --left;
      else waits |= numbers[i] == kNotSent;
    }
    if (left == 0 || moved) continue;
    for (size_t i = 0; i < messages.size(); ++i)
      if (numbers[i] != kDone && states[messages[i].peer].gone) throw lost(messages[i].peer, "is gone");
    wait(heard, messages, numbers);
    if (std::chrono::steady_clock::now() > end)
      for (size_t i = 0; i < messages.size(); ++i)
        if (numbers[i] != kDone) throw lost(messages[i].peer, "did not come in time");
  }
}

// One that was killed says nothing: it is looked for now and then.
void NearMail::wait(uint32_t heard, std::span<const Message> messages, const std::vector<uint64_t>& numbers) {
  const timespec slice{0, 200'000'000};
  const long status =
      ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&own_->bell), FUTEX_WAIT, heard, &slice, nullptr, 0);
  if (status == 0 || errno != ETIMEDOUT) return;
  for (size_t i = 0; i < messages.size(); ++i)
    if (numbers[i] != kDone && ::kill(static_cast<pid_t>(peers_[messages[i].peer].process), 0) != 0 && errno == ESRCH)
      throw lost(messages[i].peer, "has ended");
}

}  // namespace transom::cpu
