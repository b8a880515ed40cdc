// SPDX-License-Identifier: Apache-2.0
// The collectives of MPI, for processes that mpirun launched. Calls do not block inside of MPI, which would spin on a
// core that computes: they are started and asked for, with short sleeps in between.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cpu/collectives/transport.h"
#include "cpu/transports/group_id.h"

namespace transom::cpu {
namespace {

constexpr int kEagerTests = 200;  // before the first sleep
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr size_t kPiece = size_t{1} << 30;  // counts of MPI are int

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(std::string("MPI: ") + what + ": " + text);
}

// MPI of this process: started with the first group, ended with the last.
class World {
 public:
  World() {
    const std::lock_guard lock(mutex());
    if (groups()++ > 0) return;
    try {
      start();
    } catch (...) {
      --groups();
      throw;
    }
  }
  // Groups of which a rank failed leave without a word: the ranks could wait for each other for ever.
  ~World() {
    const std::lock_guard lock(mutex());
    if (--groups() == 0 && !lost) MPI_Finalize();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // To be held in each call where this MPI does not take calls of several threads at once: every group has a thread.
  static std::unique_lock<std::mutex> turn() {
    static std::mutex one;
    return takes_turns ? std::unique_lock(one) : std::unique_lock<std::mutex>();
  }

  static inline std::atomic<bool> lost{false};

 private:
  static inline std::atomic<bool> takes_turns{false};
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static int& groups() {
    static int count = 0;
    return count;
  }
  static void start() {
    int ready = 0, ended = 0;
    MPI_Initialized(&ready);
    MPI_Finalized(&ended);
    if (ended) throw std::runtime_error("MPI cannot be started twice in a process");
    int level = MPI_THREAD_MULTIPLE;
    if (!ready) check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "starting");
    if (level < MPI_THREAD_SERIALIZED) throw std::runtime_error("this MPI was built for one thread only");
    takes_turns = level < MPI_THREAD_MULTIPLE;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
};

// The communicator of those of mpirun's processes that have this id, in the order of their ranks there. Others
// need not know of it.
MPI_Comm group_of(const GroupId& id, uint32_t ranks, const Exchange& exchange) {
  int own = 0, launched = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "asking for the rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &launched), "counting the ranks");
  if (static_cast<uint32_t>(launched) < ranks)
    throw std::runtime_error("expected " + std::to_string(ranks) + " processes, found that mpirun launched " +
                             std::to_string(launched));
  Bytes mine(sizeof own);
  std::memcpy(mine.data(), &own, sizeof own);
  std::vector<int> members;
  for (const Bytes& part : exchange(std::vector<Bytes>(ranks, mine))) {
    int member = -1;
    if (part.size() == sizeof member) std::memcpy(&member, part.data(), sizeof member);
    if (member < 0 || member >= launched || std::find(members.begin(), members.end(), member) != members.end())
      throw std::runtime_error("expected ranks of one mpirun, found that rank " + std::to_string(members.size()) +
                               " is not one of them or comes twice");
    members.push_back(member);
  }
  const auto turn = World::turn();
  MPI_Group world, group;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "making a group");
  check(MPI_Group_incl(world, static_cast<int>(ranks), members.data(), &group), "making a group");
  MPI_Comm communicator = MPI_COMM_NULL;
  constexpr int kTags = 32767;  // that every MPI has
  const int status = MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(id.nonce % kTags), &communicator);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  check(status, "making a communicator");
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

class Mpi : public Transport {
 public:
  Mpi(const GroupId& id, uint32_t ranks, const Exchange& exchange) : patience_(id.timeout) {
    try {
      group_ = group_of(id, ranks, exchange);
    } catch (...) {
      World::lost = true;
      throw;
    }
  }

  ~Mpi() override {
    if (!lost_) MPI_Comm_free(&group_);
  }

  bool reaches_all() const override { return true; }

  void all_reduce(void* data, size_t count, transom_dtype dtype, transom_reduction reduction) override {
    const MPI_Datatype type = type_of(dtype);
    const MPI_Op operation = reduction == TRANSOM_SUM ? MPI_SUM : reduction == TRANSOM_MAX ? MPI_MAX : MPI_MIN;
    int size = 1;
    MPI_Type_size(type, &size);
    in_pieces(count, [&](size_t done, int piece) {
      run("all-reduce", [&](MPI_Request& request) {
        return MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + done * static_cast<size_t>(size), piece, type,
                              operation, group_, &request);
      });
    });
  }

  void all_gather(const void* from, void* to, size_t bytes) override {
    if (bytes >= kPiece) throw std::runtime_error("MPI: all-gather of more than a gigabyte from each rank");
    int rank = 0;
    MPI_Comm_rank(group_, &rank);
    const bool in_place = from == static_cast<char*>(to) + bytes * static_cast<size_t>(rank);
    run("all-gather", [&](MPI_Request& request) {
      return MPI_Iallgather(in_place ? MPI_IN_PLACE : from, static_cast<int>(bytes), MPI_BYTE, to,
                            static_cast<int>(bytes), MPI_BYTE, group_, &request);
    });
  }

  void broadcast(void* data, size_t bytes, uint32_t root) override {
    in_pieces(bytes, [&](size_t done, int piece) {
      run("broadcast", [&](MPI_Request& request) {
        return MPI_Ibcast(static_cast<char*>(data) + done, piece, MPI_BYTE, static_cast<int>(root), group_, &request);
      });
    });
  }

  void exchange(std::span<const Message> messages) override {
    std::vector<MPI_Request> requests;
    for (const Message& message : messages)
      in_pieces(message.bytes, [&](size_t done, int piece) {
        MPI_Request& request = requests.emplace_back();
        const int peer = static_cast<int>(message.peer);
        const auto turn = World::turn();
        if (message.sends)
          check(MPI_Isend(message.data + done, piece, MPI_BYTE, peer, kMessageTag, group_, &request), "send");
        else check(MPI_Irecv(message.data + done, piece, MPI_BYTE, peer, kMessageTag, group_, &request), "receive");
      });
    for (MPI_Request& request : requests) wait_for(request, "message");
  }

  void abort() override { lost_ = World::lost = true; }

 private:
  static MPI_Datatype type_of(transom_dtype dtype) {
    switch (dtype) {
      case TRANSOM_FLOAT32:
        return MPI_FLOAT;
      case TRANSOM_FLOAT64:
        return MPI_DOUBLE;
      case TRANSOM_INT32:
        return MPI_INT32_T;
      case TRANSOM_INT64:
        return MPI_INT64_T;
      default:
        throw std::runtime_error("MPI: a type that is not reduced");
    }
  }

  template <typename Body>
  void in_pieces(size_t count, Body&& body) {
    for (size_t done = 0; done < count; done += kPiece) body(done, static_cast<int>(std::min(kPiece, count - done)));
  }

  // Starts a call and waits for its end.
  template <typename Start>
  void run(const char* what, Start&& start) {
    MPI_Request request;
    {
      const auto turn = World::turn();
      check(start(request), what);
    }
    wait_for(request, what);
  }

  void wait_for(MPI_Request& request, const char* what) {
    const auto end = std::chrono::steady_clock::now() + patience_;
    for (int tests = 0;; ++tests) {
      int done = 0;
      {
        const auto turn = World::turn();
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      }
      if (done) return;
      if (lost_) throw std::runtime_error("MPI: given up, since another rank is lost");
      if (tests <= kEagerTests) continue;
      std::this_thread::sleep_for(kSleep);
      if (std::chrono::steady_clock::now() < end) continue;
      abort();
      throw std::runtime_error(std::string("MPI: ") + what + ": the other ranks did not come within " +
                               std::to_string(patience_.count()) + " seconds (ddp_timeout)");
    }
  }

  static constexpr int kMessageTag = 1;
  World world_;
  std::chrono::seconds patience_;
  MPI_Comm group_ = MPI_COMM_NULL;
  std::atomic<bool> lost_{false};
};

void make_id(const GroupOptions& options, unsigned char* id, size_t bytes) {
  write_id(make_group_id(options), id, bytes);
}

Transport* join(const unsigned char* id, size_t bytes, uint32_t, uint32_t ranks, const Exchange& exchange) {
  return new Mpi(read_id(id, bytes), ranks, exchange);
}

// Processes of another MPI's launcher would each be alone in this one.
bool launched() {
#ifdef OPEN_MPI
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
#else
  return std::getenv("PMI_SIZE") != nullptr;
#endif
}

}  // namespace
}  // namespace transom::cpu

extern "C" TRANSOM_PLUGIN_EXPORT const transom::cpu::TransportLibrary* transom_transport() {
  static const transom::cpu::TransportLibrary library{transom::cpu::make_id, transom::cpu::join,
                                                      transom::cpu::launched};
  return &library;
}
