// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "distributed/store.h"

namespace transom {

struct StoreServer::Guest {
  Socket socket;
  FrameReader reader{kStrangerBytes};
  int64_t rank = -1;  // below 0: has not said hello
  Clock::time_point came = Clock::now();
  bool said_bye = false, gone = false;
  static constexpr uint64_t kStrangerBytes = 4096, kRankBytes = uint64_t{4} << 30;
};

namespace {

constexpr size_t kMostStrangers = 4096;
constexpr auto kStrangerPatience = std::chrono::seconds(10);
constexpr int kGlance = 200;  // milliseconds between two looks at the clock

std::optional<int64_t> number_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

StoreServer::StoreServer(const Launch& launch, double timeout)
    : launch_(launch),
      timeout_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout))),
      listener_(listen_at(launch.master_address, launch.master_port)),
      ranks_(static_cast<size_t>(launch.ranks)),
      gathered_(static_cast<size_t>(launch.ranks)),
      began_(Clock::now()) {
  if (::pipe(wake_) != 0) fail("no pipe: {}", std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  const char byte = 0;
  if (::write(wake_[1], &byte, 1) == 1) thread_.join();
  else thread_.detach();
  for (const int end : wake_) ::close(end);
}

void StoreServer::serve() {
  while (true) {
    std::vector<pollfd> entries{{wake_[0], POLLIN, 0}, {listener_.file(), POLLIN, 0}};
    for (const auto& guest : guests_) entries.push_back({guest->socket.file(), POLLIN, 0});
    if (::poll(entries.data(), entries.size(), kGlance) < 0 && errno != EINTR) return;
    if (entries[0].revents) return;
    for (size_t i = 2; i < entries.size(); ++i) {
      if (!entries[i].revents) continue;
      Guest& guest = *guests_[i - 2];
      const bool open = guest.reader.read(guest.socket);
      while (const auto frame = guest.reader.next()) {
        if (guest.gone) break;
        if (guest.rank < 0) welcome_stranger(guest, *frame);
        else take(guest, *frame);
      }
      if (open || guest.gone) continue;
      guest.gone = true;
      if (guest.rank >= 0) {
        ranks_[static_cast<size_t>(guest.rank)] = nullptr;
        if (!guest.said_bye) lose(guest.rank, "");
      }
    }
    if (entries[1].revents && guests_.size() < ranks_.size() + kMostStrangers) {
      auto guest = std::make_unique<Guest>();
      guest->socket = Socket(::accept4(listener_.file(), nullptr, nullptr, SOCK_CLOEXEC));
      // A guest that does not read holds the others up for no longer than this.
      const timeval limit{.tv_sec = 60, .tv_usec = 0};
      if (guest->socket) {
        ::setsockopt(guest->socket.file(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        guests_.push_back(std::move(guest));
      }
    }
    check_time();
    std::erase_if(guests_, [](const auto& guest) { return guest->gone; });
  }
}

void StoreServer::welcome_stranger(Guest& guest, const Frame& frame) {
  const auto fields = split_texts(frame.contents);
  const auto rank = fields && fields->size() == 3 ? number_of((*fields)[0]) : std::nullopt;
  const auto ranks = rank ? number_of((*fields)[1]) : std::nullopt;
  const bool fits = frame.kind == FrameKind::kHello && ranks && *ranks == launch_.ranks && *rank >= 0 &&
                    *rank < *ranks && (*fields)[2] == launch_.job && !welcomed_ && !ranks_[static_cast<size_t>(*rank)];
  if (!fits) {
    log(LogLevel::kWarning, fmt::format("{}:{}: a connection was refused that is not of a rank of this job",
                                        launch_.master_address, launch_.master_port));
    guest.gone = true;
    return;
  }
  guest.rank = *rank;
  guest.reader.set_limit(Guest::kRankBytes);
  ranks_[static_cast<size_t>(*rank)] = &guest;
  if (std::find(ranks_.begin(), ranks_.end(), nullptr) != ranks_.end()) return;
  welcomed_ = true;
  send_to_all(FrameKind::kWelcome, "");
}

void StoreServer::take(Guest& guest, const Frame& frame) {
  const auto rank = static_cast<size_t>(guest.rank);
  switch (frame.kind) {
    case FrameKind::kGather:
      if (!round_began_) round_began_ = Clock::now();
      gathered_[rank] = frame.contents;
      if (std::all_of(gathered_.begin(), gathered_.end(), [](const auto& part) { return part.has_value(); })) {
        std::vector<std::string> parts;
        for (auto& part : gathered_) parts.push_back(*std::exchange(part, std::nullopt));
        round_began_.reset();
        send_to_all(FrameKind::kAll, joined_texts(parts));
      }
      return;
    case FrameKind::kFailure:
      lose(guest.rank, frame.contents.empty() ? "no reason given" : frame.contents);
      return;
    case FrameKind::kBye:
      guest.said_bye = true;
      return;
    default:
      lose(guest.rank, "its connection carried something else than expected");
      guest.gone = true;
      ranks_[rank] = nullptr;
  }
}

// The first loss only: others follow from it.
void StoreServer::lose(int64_t rank, const std::string& text) {
  if (std::exchange(broken_, true)) return;
  int64_t reporter = rank;
  if (text.empty())  // it could not say anything
    for (reporter = 0; reporter < launch_.ranks && (reporter == rank || !ranks_[static_cast<size_t>(reporter)]);)
      ++reporter;
  send_to_all(FrameKind::kLost, joined_texts({std::to_string(rank), text, std::to_string(reporter)}));
}

void StoreServer::send_to_all(FrameKind kind, const std::string& contents) {
  // Rank 0 last: it may end as soon as it knows, and this thread with it. Who is gone is noticed when it is read from.
  for (auto guest = ranks_.rbegin(); guest != ranks_.rend(); ++guest)
    if (*guest) send_frame((*guest)->socket, kind, contents);
}

void StoreServer::check_time() {
  const Clock::time_point now = Clock::now();
  for (const auto& guest : guests_)
    if (guest->rank < 0 && now - guest->came > kStrangerPatience) guest->gone = true;
  if (broken_) return;
  if (round_began_ && now - *round_began_ > timeout_)
    for (size_t rank = 0; rank < gathered_.size(); ++rank)
      if (!gathered_[rank]) {
        // It cannot tell of itself: somebody else does.
        broken_ = true;
        const size_t reporter = rank == 0 ? 1 : 0;
        send_to_all(FrameKind::kLost,
                    joined_texts({std::to_string(rank), "it did not come to where the others wait for it in time",
                                  std::to_string(reporter)}));
        return;
      }
}

}  // namespace transom
