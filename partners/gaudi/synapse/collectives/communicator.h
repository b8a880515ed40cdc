// SPDX-License-Identifier: Apache-2.0
// A communicator: one rank of a group, the reductions of its elements, and what went wrong. Sums are taken in f32 in
// the order of the ranks and rounded once, so that all ranks get the same bits at each run.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../stream.h"
#include "ranks/group.h"

namespace synapse_emulator {

using emulator_common::Meeting;
using emulator_common::Message;

// Opens the meeting point of a communicator-to-be and serves it from a thread of its own.
Meeting open_meeting();
// The meeting point of HCCL_COMM_ID, opened by rank 0.
Meeting fixed_meeting(bool open);

class Communicator {
 public:
  // Meets the other ranks; throws Failure, as the collectives do.
  Communicator(const Meeting& meeting, int rank, int size);

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  // Ranks of one server, and servers; where servers have different numbers of ranks, the smallest.
  int ranks_of_server() const { return ranks_of_server_; }
  int servers() const { return servers_; }
  bool shares_server(int peer) const { return servers_of_ranks_[static_cast<size_t>(peer)] == server_; }

  // The collectives, on host memory; run by workers of streams. `type` is f32 or bf16. Counts are elements.
  void all_reduce(char* send, char* receive, uint64_t count, int type, int operation);
  void reduce(char* send, char* receive, uint64_t count, int type, int operation, int root);
  void reduce_scatter(char* send, char* receive, uint64_t count, int type, int operation);
  void all_gather(char* send, char* receive, uint64_t bytes);
  void broadcast(char* send, char* receive, uint64_t bytes, int root);
  void all_to_all(char* send, char* receive, uint64_t bytes_for_each);
  void barrier();
  void point_to_point(const std::vector<Message>& sends, const std::vector<Message>& receives);

  // Keeps the order of calls over streams: what was submitted before.
  std::mutex order;
  std::shared_ptr<Stream> last_stream;
  uint64_t last_number = 0;

  // After a failure nothing works any more, and the others see closed connections.
  void broken(int result, const std::string& text);
  int error(std::string* text = nullptr) const;

 private:
  // Calls work(group); what goes wrong breaks the communicator.
  template <typename Work>
  void run(Work&& work);

  void count_servers();

  std::unique_ptr<emulator_common::Group> group_;
  uint64_t server_ = 0;
  std::vector<uint64_t> servers_of_ranks_;
  int ranks_of_server_ = 1, servers_ = 1;
  mutable std::mutex mutex_;
  int error_ = 0;
  std::string text_;
};

}  // namespace synapse_emulator
