// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/terminal/log.h"
#include "runtime/distributed/store.h"

namespace transom {

struct StoreServer::Peer {
  Socket socket;
  FrameReader reader{kUnknownPeerBytes};
  std::deque<Bytes> unsent;
  size_t sent = 0;    // of the first of them
  int64_t rank = -1;  // below 0: has not said hello
  Clock::time_point came = Clock::now(), heard = came;
  bool said_bye = false, gone = false;
  static constexpr uint64_t kUnknownPeerBytes = 4096, kRankBytes = uint64_t{4} << 30;
};

namespace {

constexpr size_t kMostUnknownPeers = 4096, kMostGroupRounds = 65536;
constexpr auto kIdentificationTimeout = std::chrono::seconds(10);
constexpr auto kLastWords = std::chrono::seconds(2);  // for the news of a loss to reach the others
constexpr auto kAcceptPause = std::chrono::milliseconds(200);
constexpr int kGlance = 200;  // milliseconds between two looks at the clock, at most

std::optional<int64_t> number_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

StoreServer::StoreServer(const Launch& launch, const StoreOptions& options)
    : launch_(launch),
      options_(options),
      listener_(listen_at(launch.master_address, launch.master_port)),
      ranks_(static_cast<size_t>(launch.ranks)),
      gathered_(static_cast<size_t>(launch.ranks)),
      not_here_(static_cast<size_t>(launch.ranks)),
      not_gathered_(not_here_),
      watchdog_(launch.ranks, options.longest_wait()),
      looked_(Clock::now()),
      beat_(looked_),
      accept_again_(looked_) {
  if (::pipe2(wake_, O_CLOEXEC) != 0) fail("no pipe: {}", std::strerror(errno));
  ::fcntl(listener_.file(), F_SETFL, ::fcntl(listener_.file(), F_GETFL) | O_NONBLOCK);
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  ::close(wake_[1]);  // which wakes the thread
  thread_.join();
  ::close(wake_[0]);
}

void StoreServer::serve() {
  std::vector<pollfd> entries;
  while (!is_over()) {
    const bool accepts = peers_.size() < ranks_.size() + kMostUnknownPeers && Clock::now() >= accept_again_ && !ending_;
    // A negative file is passed over.
    entries.assign({{ending_ ? -1 : wake_[0], POLLIN, 0}, {accepts ? listener_.file() : -1, POLLIN, 0}});
    for (const auto& peer : peers_)
      entries.push_back({peer->socket.file(), static_cast<short>(peer->unsent.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    const int glance =
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(options_.heartbeat()).count());
    if (::poll(entries.data(), entries.size(), std::clamp(glance, 1, kGlance)) < 0) {
      if (errno != EINTR) std::this_thread::sleep_for(kAcceptPause);  // no memory, or too few files
      for (pollfd& entry : entries) entry.revents = 0;
    }
    if (entries[0].revents) ending_ = Clock::now();
    for (size_t i = 2; i < entries.size(); ++i) {
      Peer& peer = *peers_[i - 2];
      if (entries[i].revents & POLLOUT) flush(peer);
      if (entries[i].revents & ~POLLOUT) read(peer);
    }
    if (entries[1].revents) accept_all();
    check_time();
    tell_main();
    std::erase_if(peers_, [](const auto& peer) { return peer->gone; });
  }
}

// Whether rank 0 has ended and nobody needs this server any more. Who has not said goodbye still computes, or reads.
bool StoreServer::is_over() const {
  if (!ending_) return false;
  if (!welcomed_ && !broke_) return true;  // rank 0 gave up waiting
  const auto since = Clock::now() - (broke_ ? *broke_ : *ending_);
  if (since > (broke_ ? Clock::duration(kLastWords) : options_.longest_silence())) return true;
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](const Peer* peer) { return !peer || (peer->unsent.empty() && (peer->said_bye || broke_)); });
}

// Many come at once.
void StoreServer::accept_all() {
  while (peers_.size() < ranks_.size() + kMostUnknownPeers) {
    Socket socket(::accept4(listener_.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Without files or memory the connection stays in the queue, and would be announced again at once.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log(LogLevel::kWarning,
            fmt::format("rank 0 cannot take a connection of another rank: {}; see ulimit -n", std::strerror(errno)));
        accept_again_ = Clock::now() + kAcceptPause;
      }
      return;
    }
    auto peer = std::make_unique<Peer>();
    peer->socket = std::move(socket);
    expect_answers(peer->socket, options_.longest_silence());
    peers_.push_back(std::move(peer));
  }
}

void StoreServer::read(Peer& peer) {
  if (peer.gone) return;
  const bool open = peer.reader.read(peer.socket);
  const int reason = errno;
  peer.heard = Clock::now();
  while (const auto frame = peer.reader.next()) {
    if (peer.gone) break;
    if (peer.rank < 0) identify(peer, *frame);
    else take(peer, *frame);
  }
  if (open || peer.gone) return;
  peer.gone = true;
  if (peer.rank < 0) return;
  forget(peer);
  if (peer.said_bye) return;
  const bool cut = reason == ETIMEDOUT || reason == EHOSTUNREACH || reason == ENETUNREACH || reason == ENETDOWN;
  lose(peer.rank, cut ? fmt::format("its connection was cut: {}", std::strerror(reason)) : "", false);
}

void StoreServer::identify(Peer& peer, const Frame& frame) {
  const auto fields = split_texts(frame.contents);
  const auto rank = fields && fields->size() == 3 ? number_of((*fields)[0]) : std::nullopt;
  const auto ranks = rank ? number_of((*fields)[1]) : std::nullopt;
  const bool fits = frame.kind == FrameKind::kHello && ranks && *ranks == launch_.ranks && *rank >= 0 &&
                    *rank < *ranks && (*fields)[2] == launch_.job && !welcomed_ && !ranks_[static_cast<size_t>(*rank)];
  if (!fits) {
    log(LogLevel::kWarning, fmt::format("{}:{}: a connection was refused that is not of a rank of this job",
                                        launch_.master_address, launch_.master_port));
    peer.gone = true;
    return;
  }
  peer.rank = *rank;
  peer.reader.set_limit(Peer::kRankBytes);
  ranks_[static_cast<size_t>(*rank)] = &peer;
  if (--not_here_ > 0) return;
  welcomed_ = true;
  send_to_all(FrameKind::kWelcome, "");
}

void StoreServer::forget(const Peer& peer) {
  ranks_[static_cast<size_t>(peer.rank)] = nullptr;
  ++not_here_;
}

void StoreServer::take(Peer& peer, const Frame& frame) {
  const auto rank = static_cast<size_t>(peer.rank);
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
      return;
    case FrameKind::kGather:
      return take_part(rank, frame);
    case FrameKind::kGroupExchange:
      return take_group_part(rank, frame);
    case FrameKind::kFailure:
      return lose(peer.rank, frame.contents.empty() ? "no reason given" : frame.contents, true);
    case FrameKind::kBye:
      peer.said_bye = true;
      return;
    case FrameKind::kProgress:
      if (auto progress = progress_of_bytes(frame.contents)) return watchdog_.take(peer.rank, std::move(*progress));
      [[fallthrough]];
    default:
      peer.gone = true;
      forget(peer);
      lose(peer.rank, "its connection carried something else than expected", false);
  }
}

void StoreServer::take_part(size_t rank, const Frame& frame) {
  if (!round_began_) round_began_ = Clock::now();
  if (gathered_[rank])
    return lose(static_cast<int64_t>(rank), "it exchanges something else than the ranks before it", false);
  gathered_[rank] = frame.contents;
  if (--not_gathered_ == 0) answer_round();
}

void StoreServer::answer_round() {
  std::vector<std::string> parts;
  for (auto& part : gathered_) parts.push_back(*std::exchange(part, std::nullopt));
  round_began_.reset();
  not_gathered_ = gathered_.size();
  send_to_all(FrameKind::kAll, joined_runs(parts));
}

// The round of this name, which begins where there is none; null, and why, where it cannot.
StoreServer::GroupRound* StoreServer::group_round(const std::string& name, const std::string& ranks,
                                                  const char*& refusal) {
  const auto found = group_rounds_.find(name);
  if (found != group_rounds_.end()) {
    refusal = "it meets other ranks than those that wait for it";
    return found->second.text == ranks ? &found->second : nullptr;
  }
  const auto numbers = ranks_of_text(ranks, launch_.ranks);
  refusal = "it meets ranks that there are not";
  if (!numbers || std::adjacent_find(numbers->begin(), numbers->end()) != numbers->end()) return nullptr;
  refusal = "too many groups of ranks wait for each other";
  if (group_rounds_.size() > kMostGroupRounds) return nullptr;
  GroupRound& round = group_rounds_[name];
  round.text = ranks;
  round.ranks.assign(numbers->begin(), numbers->end());
  round.missing = numbers->size();
  round.came.resize(round.missing);
  round.brought.resize(round.missing);
  round.began = Clock::now();
  return &round;
}

// The frame: a name, the ranks that meet, and parts that are not empty, each behind the place among these ranks of who
// gets it; nothing in its place: all get it.
void StoreServer::take_group_part(size_t rank, const Frame& frame) {
  const auto lost = [&](const char* why) { lose(static_cast<int64_t>(rank), why, false); };
  auto fields = split_texts(frame.contents);
  if (!fields || fields->size() < 2 || fields->size() % 2 != 0)
    return lost("it did not bring a part for each rank that it meets");
  const std::string name = std::move((*fields)[0]);
  const char* refusal = nullptr;
  GroupRound* round = group_round(name, (*fields)[1], refusal);
  if (!round) return lost(refusal);
  const auto own = std::lower_bound(round->ranks.begin(), round->ranks.end(), rank);
  if (own == round->ranks.end() || *own != rank) return lost("it meets ranks of which it is none");
  const auto place = static_cast<size_t>(own - round->ranks.begin());
  if (round->came[place]) return lost("it meets the same ranks twice at once");
  for (size_t i = 2; i < fields->size(); i += 2) {
    const int64_t to = (*fields)[i].empty() ? 0 : number_of((*fields)[i]).value_or(-1);
    if (to < 0 || static_cast<size_t>(to) >= round->ranks.size())
      return lost("it did not bring a part for each rank that it meets");
    std::vector<std::string>& column = (*fields)[i].empty() ? round->for_all : round->brought[static_cast<size_t>(to)];
    column.push_back(std::to_string(place));
    column.push_back(std::move((*fields)[i + 1]));
  }
  round->came[place] = true;
  if (--round->missing > 0) return;
  answer_group(name, *round);
  group_rounds_.erase(name);
}

void StoreServer::answer_group(const std::string& name, const GroupRound& round) {
  std::vector<std::string> for_all{name};
  for_all.insert(for_all.end(), round.for_all.begin(), round.for_all.end());
  const auto bytes_of = [&](const std::vector<std::string>& texts) {
    return std::make_shared<const std::string>(bytes_of_frame(FrameKind::kGroupAnswer, joined_texts(texts)));
  };
  const Bytes to_most = bytes_of(for_all);
  for (size_t i = round.ranks.size(); i-- > 0;) {
    Peer* peer = ranks_[round.ranks[i]];
    if (!peer) continue;
    if (round.brought[i].empty()) {
      send(*peer, to_most);
      continue;
    }
    std::vector<std::string> column = for_all;
    column.insert(column.end(), round.brought[i].begin(), round.brought[i].end());
    send(*peer, bytes_of(column));
  }
}

void StoreServer::send(Peer& peer, Bytes bytes) {
  peer.unsent.push_back(std::move(bytes));
  flush(peer);
}

// Who is gone is noticed when it is read from.
void StoreServer::flush(Peer& peer) {
  while (!peer.unsent.empty()) {
    const std::string& bytes = *peer.unsent.front();
    const ssize_t sent = ::send(peer.socket.file(), bytes.data() + peer.sent, bytes.size() - peer.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) return peer.unsent.clear();
    peer.sent += static_cast<size_t>(sent);
    if (peer.sent < bytes.size()) continue;
    peer.unsent.pop_front();
    peer.sent = 0;
  }
}

void StoreServer::send_to_all(FrameKind kind, const std::string& contents) {
  const auto bytes = std::make_shared<const std::string>(bytes_of_frame(kind, contents));
  for (auto peer = ranks_.rbegin(); peer != ranks_.rend(); ++peer)
    if (*peer) send(**peer, bytes);
}

// The first loss only: others follow from it. Who cannot speak for itself is reported by the lowest rank that is left.
void StoreServer::lose(int64_t rank, const std::string& text, bool speaks_itself) {
  if (broke_) return;
  broke_ = Clock::now();
  int64_t reporter = rank;
  if (!speaks_itself)
    for (reporter = 0; reporter < launch_.ranks && (reporter == rank || !ranks_[static_cast<size_t>(reporter)]);)
      ++reporter;
  const auto bytes = std::make_shared<const std::string>(
      bytes_of_frame(FrameKind::kLost, joined_texts({std::to_string(rank), text, std::to_string(reporter)})));
  for (size_t other = 1; other < ranks_.size(); ++other)
    if (ranks_[other]) send(*ranks_[other], bytes);
  for_main_ = bytes;
}

void StoreServer::tell_main() {
  if (!for_main_) return;
  const bool all_know =
      std::all_of(ranks_.begin() + 1, ranks_.end(), [](const Peer* peer) { return !peer || peer->unsent.empty(); });
  if (!all_know && Clock::now() - *broke_ < kLastWords) return;
  if (ranks_[0]) send(*ranks_[0], std::exchange(for_main_, nullptr));
  for_main_.reset();
}

// A rank of which nothing is heard is soon lost for that reason.
void StoreServer::check_collectives(Clock::time_point now) {
  const std::optional<LateRank> late = watchdog_.find();
  if (!late) return;
  if (late->rank >= 0) {
    const Peer* peer = ranks_[static_cast<size_t>(late->rank)];
    if (!peer || now - peer->heard > options_.longest_silence() / 2) return;
  }
  lose(late->rank, late->text, false);
}

void StoreServer::check_time() {
  const Clock::time_point now = Clock::now();
  // After a pause of this process itself it has heard nobody, whoever spoke.
  const bool slept = now - looked_ > options_.longest_silence() / 2;
  looked_ = now;
  for (const auto& peer : peers_) {
    if (slept) peer->heard = now;
    if (peer->rank < 0) peer->gone |= now - peer->came > kIdentificationTimeout;
  }
  if (now - beat_ >= options_.heartbeat()) {
    beat_ = now;
    for (Peer* peer : ranks_)
      if (peer && peer->unsent.empty())
        send(*peer, std::make_shared<const std::string>(bytes_of_frame(FrameKind::kHeartbeat, "")));
  }
  if (broke_) return;
  check_collectives(now);
  if (broke_) return;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (const Peer* peer = ranks_[rank]; peer && !peer->said_bye && now - peer->heard > options_.longest_silence())
      return lose(
          static_cast<int64_t>(rank),
          fmt::format("it has given no sign of life for {:.3g} seconds: its process stands still, or its server "
                      "or network is down",
                      std::min(options_.silence, options_.timeout)),
          false);
  constexpr const char* kLate = "it did not come to where the others wait for it in time";
  if (round_began_ && now - *round_began_ > options_.patience())
    for (size_t rank = 0; rank < gathered_.size(); ++rank)
      if (!gathered_[rank]) return lose(static_cast<int64_t>(rank), kLate, false);
  for (const auto& [name, round] : group_rounds_)
    if (now - round.began > options_.patience())
      for (size_t i = 0; i < round.ranks.size(); ++i)
        if (!round.came[i]) return lose(static_cast<int64_t>(round.ranks[i]), kLate, false);
}

}  // namespace transom
