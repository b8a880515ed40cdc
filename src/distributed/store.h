// SPDX-License-Identifier: Apache-2.0
// Where the processes of a group exchange values of the host and learn of each other's end: rank 0 serves, all are
// connected to it, rank 0 too.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/sockets.h"
#include "transom/distributed.h"

namespace transom {

// Serves from a thread of its own, until everybody has gone.
class StoreServer {
 public:
  StoreServer(const Launch& launch, double timeout);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct Guest;
  void serve();
  void welcome_stranger(Guest& guest, const Frame& frame);
  void take(Guest& guest, const Frame& frame);
  void lose(int64_t rank, const std::string& text);
  void send_to_all(FrameKind kind, const std::string& contents);
  void check_time();

  Launch launch_;
  Clock::duration timeout_;
  Socket listener_;
  int wake_[2] = {-1, -1};
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<Guest*> ranks_;                         // by rank; null: not here (yet)
  std::vector<std::optional<std::string>> gathered_;  // of this round
  std::optional<Clock::time_point> round_began_;
  Clock::time_point began_;
  bool welcomed_ = false, broken_ = false;
  std::thread thread_;
};

// What is known of a rank that is lost.
struct LostRank {
  int64_t rank = 0;
  std::string text;       // what it said before it ended; empty: nothing
  int64_t reporter = -1;  // the rank that tells the user
};

class StoreClient {
 public:
  // Returns when all ranks have come.
  StoreClient(const Launch& launch, double timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // What each rank gave, by rank; all call it together. Throws when a rank is lost.
  std::vector<std::string> all_gather(const std::string& mine);
  // Tells the others why this rank ends. Returns which rank counts as the one that failed, which may be another that
  // was faster; nothing if the server does not say so soon.
  std::optional<LostRank> fail_with(const std::string& text);
  void leave();
  // The rank that was lost, waiting so long for the news.
  std::optional<LostRank> lost(std::chrono::milliseconds patience);
  // Called once, on a thread of the client's, when a rank is lost.
  void on_loss(std::function<void()> callback);

 private:
  void listen();
  Launch launch_;
  Clock::duration timeout_;
  Socket socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool welcomed_ = false, leaving_ = false;
  std::optional<std::string> answer_;
  std::optional<LostRank> lost_;
  std::function<void()> callback_;
  std::thread thread_;
};

// Texts as one, each with its length in front, and back; nothing where the bytes are not that.
std::string joined_texts(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> split_texts(const std::string& bytes);

}  // namespace transom
