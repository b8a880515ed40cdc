// SPDX-License-Identifier: Apache-2.0
// The collectives of MPI, for processes that mpirun launched. Calls do not block inside of MPI, which would spin on a
// core that computes: they are started and asked for, with short sleeps in between.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cpu/collectives/transport.h"

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

class Mpi : public Transport {
 public:
  Mpi(uint32_t rank, uint32_t ranks) {
    int ready = 0, ended = 0;
    MPI_Initialized(&ready);
    MPI_Finalized(&ended);
    if (ended) throw std::runtime_error("MPI cannot be started twice in a process");
    int level = MPI_THREAD_SERIALIZED;
    // The threads take turns: this one starts and ends MPI, that of the communicator does the rest.
    if (!ready) check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "starting");
    if (level < MPI_THREAD_SERIALIZED) throw std::runtime_error("this MPI was built for one thread only");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int size = 0, own = 0;
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "counting the ranks");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "asking for the rank");
    if (static_cast<uint32_t>(size) != ranks || static_cast<uint32_t>(own) != rank)
      throw std::runtime_error("expected rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                               ", found that mpirun launched this process as rank " + std::to_string(own) + " of " +
                               std::to_string(size));
    check(MPI_Comm_dup(MPI_COMM_WORLD, &group_), "making a communicator");
    MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
  }

  // Ranks that failed leave without a word: they could wait for each other for ever.
  ~Mpi() override {
    if (lost_) return;
    MPI_Comm_free(&group_);
    MPI_Finalize();
  }

  void all_reduce(void* data, size_t count, transom_dtype dtype, transom_reduction reduction) override {
    const MPI_Datatype type = type_of(dtype);
    const MPI_Op operation = reduction == TRANSOM_SUM ? MPI_SUM : reduction == TRANSOM_MAX ? MPI_MAX : MPI_MIN;
    int size = 1;
    MPI_Type_size(type, &size);
    in_pieces(count, [&](size_t done, int piece) {
      MPI_Request request;
      check(MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + done * static_cast<size_t>(size), piece, type,
                           operation, group_, &request),
            "all-reduce");
      wait(request, "all-reduce");
    });
  }

  void all_gather(const void* from, void* to, size_t bytes) override {
    if (bytes >= kPiece) throw std::runtime_error("MPI: all-gather of more than a gigabyte from each rank");
    MPI_Request request;
    int rank = 0;
    MPI_Comm_rank(group_, &rank);
    const bool in_place = from == static_cast<char*>(to) + bytes * static_cast<size_t>(rank);
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : from, static_cast<int>(bytes), MPI_BYTE, to, static_cast<int>(bytes),
                         MPI_BYTE, group_, &request),
          "all-gather");
    wait(request, "all-gather");
  }

  void broadcast(void* data, size_t bytes, uint32_t root) override {
    in_pieces(bytes, [&](size_t done, int piece) {
      MPI_Request request;
      check(MPI_Ibcast(static_cast<char*>(data) + done, piece, MPI_BYTE, static_cast<int>(root), group_, &request),
            "broadcast");
      wait(request, "broadcast");
    });
  }

  void exchange(std::span<const Message> messages) override {
    std::vector<MPI_Request> requests;
    for (const Message& message : messages)
      in_pieces(message.bytes, [&](size_t done, int piece) {
        MPI_Request& request = requests.emplace_back();
        const int peer = static_cast<int>(message.peer);
        if (message.sends)
          check(MPI_Isend(message.data + done, piece, MPI_BYTE, peer, kMessageTag, group_, &request), "send");
        else check(MPI_Irecv(message.data + done, piece, MPI_BYTE, peer, kMessageTag, group_, &request), "receive");
      });
    for (MPI_Request& request : requests) wait(request, "message");
  }

  void abort() override { lost_ = true; }

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

  void wait(MPI_Request& request, const char* what) {
    for (int tests = 0;; ++tests) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      if (done) return;
      if (lost_) throw std::runtime_error("MPI: given up, since another rank is lost");
      if (tests > kEagerTests) std::this_thread::sleep_for(kSleep);
    }
  }

  static constexpr int kMessageTag = 1;
  MPI_Comm group_ = MPI_COMM_NULL;
  std::atomic<bool> lost_{false};
};

void make_id(unsigned char*, size_t) {}  // mpirun knows the ranks
Transport* join(const unsigned char*, size_t, uint32_t rank, uint32_t ranks) { return new Mpi(rank, ranks); }

}  // namespace
}  // namespace transom::cpu

extern "C" TRANSOM_PLUGIN_EXPORT const transom::cpu::TransportLibrary* transom_transport() {
  static const transom::cpu::TransportLibrary library{transom::cpu::make_id, transom::cpu::join};
  return &library;
}
