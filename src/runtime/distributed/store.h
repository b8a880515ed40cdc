// SPDX-License-Identifier: Apache-2.0
// Where the processes of a group exchange values of the host and learn of each other's end: rank 0 serves, all are
// connected to it, rank 0 too. Both sides send heartbeats, from threads that do nothing else, so that a process that
// stands still or that the network has lost is noticed as one that ended is.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/distributed/collective_watchdog.h"
#include "runtime/distributed/sockets.h"
#include "transom/distributed.h"

namespace transom {

struct StoreOptions {
  double timeout = 1800;  // seconds for which ranks wait for each other
  double silence = 60;    // seconds without a sign of life after which a rank counts as lost; not above the timeout

  Clock::duration patience() const { return in_clock(timeout); }
  Clock::duration longest_silence() const { return in_clock(std::min(timeout, silence)); }
  Clock::duration heartbeat() const { return longest_silence() / 6; }
  // How often ranks tell how far they have come, and the seconds after which a wait in a collective is too long: before
  // the device gives it up, which knows less of who is late.
  Clock::duration report() const { return std::min(heartbeat(), in_clock(timeout / 30)); }
  double longest_wait() const { return 0.9 * timeout; }

 private:
  static Clock::duration in_clock(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
};

// Serves from a thread of its own. Its sends wait for nobody: what a rank does not read yet is kept for it.
class StoreServer {
 public:
  StoreServer(const Launch& launch, const StoreOptions& options);
  // Returns when all ranks have left, or are lost or silent.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct Peer;
  struct GroupRound {
    std::string text;  // of the ranks
    std::vector<size_t> ranks;
    std::vector<bool> came;                         // as `ranks`
    size_t missing = 0;                             // of them
    std::vector<std::vector<std::string>> brought;  // for each of them: the place of who brought it, and what
    std::vector<std::string> for_all;               // the same, of what all get
    Clock::time_point began;
  };
  using Bytes = std::shared_ptr<const std::string>;  // of a frame, the same for all who get it

  void serve();
  bool is_over() const;
  void accept_all();
  void read(Peer& peer);
  void identify(Peer& peer, const Frame& frame);
  void forget(const Peer& peer);
  void take(Peer& peer, const Frame& frame);
  void take_part(size_t rank, const Frame& frame);
  void take_group_part(size_t rank, const Frame& frame);
  GroupRound* group_round(const std::string& name, const std::string& ranks, const char*& refusal);
  void answer_group(const std::string& name, const GroupRound& round);
  void answer_round();
  void send(Peer& peer, Bytes bytes);
  void flush(Peer& peer);
  void send_to_all(FrameKind kind, const std::string& contents);
  void lose(int64_t rank, const std::string& text, bool speaks_itself);
  void tell_main();
  void check_time();
  void check_collectives(Clock::time_point now);

  Launch launch_;
  StoreOptions options_;
  Socket listener_;
  int wake_[2] = {-1, -1};
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> ranks_;                          // by rank; null: not here (yet)
  std::vector<std::optional<std::string>> gathered_;  // of this round
  size_t not_here_, not_gathered_;
  std::optional<Clock::time_point> round_began_, ending_, broke_;
  std::map<std::string, GroupRound, std::less<>> group_rounds_;  // of some of the ranks, by name
  CollectiveWatchdog watchdog_;
  Clock::time_point looked_, beat_, accept_again_;
  Bytes for_main_;  // news of a loss, which rank 0 gets last: it may end as soon as it knows, and this thread with it
  bool welcomed_ = false;
  std::thread thread_;
};

// What is known of a rank that is lost.
struct LostRank {
  int64_t rank = 0;       // below 0: no single one
  std::string text;       // what it said before it ended, or how it was missed; empty: nothing
  int64_t reporter = -1;  // the rank that tells the user

  std::string sentence() const;
};

class StoreClient {
 public:
  // Returns when all ranks have come.
  StoreClient(const Launch& launch, const StoreOptions& options);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // What each rank gave, by rank; all call it together. Throws when a rank is lost.
  std::vector<std::string> all_gather(const std::string& mine);
  // Among some ranks, rising, of which this one is one, each of which gives something else to each: `parts` has one for
  // each of them, and what comes back is what each gave to this one. Others need not know of it, and no rank gets what
  // is not for it; empty parts do not travel. `name` is the same for all, and no other exchange of theirs has it.
  std::vector<std::string> exchange_among(const std::vector<int64_t>& ranks, const std::string& name,
                                          const std::vector<std::string>& parts);
  // Tells the others why this rank ends. Returns which rank counts as the one that failed, which may be another that
  // was faster; nothing if the server does not say so soon.
  std::optional<LostRank> fail_with(const std::string& text);
  void leave();
  // The rank that was lost, waiting so long for the news.
  std::optional<LostRank> lost(std::chrono::milliseconds patience);
  // Called once, on a thread of the client's, when a rank is lost. Returns when a call that is under way of what was
  // given before has ended; not to be called from there.
  void on_loss(std::function<void()> callback);
  // Called again and again on a thread of the client's: how far this rank has come in its collectives. Returns when a
  // call that is under way of what was given before has ended.
  void report_by(std::function<RankProgress()> progress);

 private:
  void listen();
  void beat();
  bool send(FrameKind kind, const std::string& contents);
  void lose(LostRank lost);

  Launch launch_;
  StoreOptions options_;
  Socket socket_;
  std::mutex sending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool welcomed_ = false, leaving_ = false, calling_ = false;
  std::optional<std::string> answer_;
  std::map<std::string, std::vector<std::string>> group_answers_;  // by the name of the exchange
  std::optional<LostRank> lost_;
  std::function<void()> callback_;
  std::mutex reporting_;
  std::function<RankProgress()> progress_;
  std::thread thread_;
};

// Texts as one, each with its length in front, and back; nothing where the bytes are not that.
std::string joined_texts(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> split_texts(const std::string& bytes);

// The same where equal ones that follow each other are one, with their number: of many ranks most give the same.
std::string joined_runs(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> split_runs(const std::string& bytes, size_t most);

}  // namespace transom
