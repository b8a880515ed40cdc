// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <charconv>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "runtime/device/flight_recorder.h"
#include "runtime/distributed/store.h"

namespace transom {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 30;
constexpr auto kGrace = std::chrono::seconds(5);  // that the server has to tell who is late

int64_t number_or_none(const std::string& text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string LostRank::sentence() const {
  if (rank < 0) return text;
  return fmt::format("rank {} is lost: {}", rank, text.empty() ? "its process ended without a word" : text);
}

std::string joined_texts(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
  }
  return bytes;
}

std::optional<std::vector<std::string>> split_texts(const std::string& bytes) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    if (bytes.size() - at < sizeof length) return std::nullopt;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (bytes.size() - at < length) return std::nullopt;
    texts.push_back(bytes.substr(at, length));
    at += length;
  }
  return texts;
}

std::string joined_runs(const std::vector<std::string>& texts) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < texts.size();) {
    size_t end = i + 1;
    while (end < texts.size() && texts[end] == texts[i]) ++end;
    runs.push_back(std::to_string(end - i));
    runs.push_back(texts[i]);
    i = end;
  }
  return joined_texts(runs);
}

std::optional<std::vector<std::string>> split_runs(const std::string& bytes, size_t most) {
  const auto runs = split_texts(bytes);
  if (!runs || runs->size() % 2 != 0) return std::nullopt;
  std::vector<std::string> texts;
  for (size_t i = 0; i < runs->size(); i += 2) {
    const int64_t count = number_or_none((*runs)[i]);
    if (count < 1 || static_cast<uint64_t>(count) > most - texts.size()) return std::nullopt;
    texts.insert(texts.end(), static_cast<size_t>(count), (*runs)[i + 1]);
  }
  return texts;
}

StoreClient::StoreClient(const Launch& launch, const StoreOptions& options) : launch_(launch), options_(options) {
  const Clock::time_point end = Clock::now() + options.patience();
  socket_ = connect_to(launch.master_address, launch.master_port, end);
  expect_answers(socket_, options.longest_silence());
  send_frame(socket_, FrameKind::kHello,
             joined_texts({std::to_string(launch.rank), std::to_string(launch.ranks), launch.job}));
  thread_ = std::thread([this] { listen(); });
  std::unique_lock lock(mutex_);
  const bool news = changed_.wait_until(lock, end, [&] { return welcomed_ || lost_; });
  if (welcomed_) return;
  leaving_ = true;
  const std::optional<LostRank> lost = lost_;
  lock.unlock();
  socket_.shut();
  thread_.join();
  if (!news)
    fail("rank {}: not all of the {} ranks came to {}:{} in time", launch.rank, launch.ranks, launch.master_address,
         launch.master_port);
  if (lost->text.empty())
    fail("rank {}: {}:{} refused it; expected rank 0 of the same job there, with WORLD_SIZE {} and no other rank {}",
         launch.rank, launch.master_address, launch.master_port, launch.ranks, launch.rank);
  fail("{}", lost->sentence());
}

StoreClient::~StoreClient() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  socket_.shut();
  if (thread_.joinable()) thread_.join();
}

// The first loss only. `calling_` tells on_loss that the callback, which it may have replaced, is still at work.
void StoreClient::lose(LostRank lost) {
  std::unique_lock lock(mutex_);
  if (lost_ || leaving_) return;
  lost_ = std::move(lost);
  const std::function<void()> callback = callback_;
  calling_ = callback != nullptr;
  changed_.notify_all();
  if (!callback) return;
  lock.unlock();
  callback();
  lock.lock();
  calling_ = false;
  changed_.notify_all();
}

void StoreClient::listen() {
  FrameReader reader(kMostBytes);
  Clock::time_point heard = Clock::now(), looked = heard, beat = heard;
  const int64_t speaker = launch_.rank == 0 ? 0 : 1;  // of what befalls rank 0
  const auto interval = std::chrono::duration_cast<std::chrono::milliseconds>(options_.report()).count();
  while (true) {
    pollfd entry{socket_.file(), POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(std::max<int64_t>(1, interval))) < 0 && errno != EINTR) break;
    const Clock::time_point now = Clock::now();
    // After a pause of this process itself it has heard nobody, whoever spoke.
    if (now - looked > options_.longest_silence() / 2) heard = now;
    looked = now;
    if (now - beat >= options_.report()) {
      beat = now;
      this->beat();
    }
    if (!entry.revents) {
      if (now - heard <= options_.longest_silence()) continue;
      lose(
          {0, "it has given no sign of life: its process stands still, or its server or the network is down", speaker});
      socket_.shut();
      return;
    }
    if (!reader.read(socket_)) break;
    heard = now;
    while (const auto frame = reader.next()) {
      if (frame->kind == FrameKind::kLost) {
        const auto fields = split_texts(frame->contents);
        if (fields && fields->size() == 3)
          lose({number_or_none((*fields)[0]), (*fields)[1], number_or_none((*fields)[2])});
        continue;
      }
      const std::lock_guard lock(mutex_);
      if (frame->kind == FrameKind::kWelcome) welcomed_ = true;
      if (frame->kind == FrameKind::kAll) answer_ = frame->contents;
      if (frame->kind == FrameKind::kGroupAnswer)
        if (auto fields = split_texts(frame->contents); fields && !fields->empty()) {
          const std::string name = std::move(fields->front());
          fields->erase(fields->begin());
          group_answers_[name] = std::move(*fields);
        }
      changed_.notify_all();
    }
  }
  // Rank 0 serves: without it there is nobody else to tell.
  lose({0, "", speaker});
}

void StoreClient::beat() {
  const std::lock_guard reporting(reporting_);
  const std::string progress = progress_ ? bytes_of_progress(progress_()) : "";
  // While another thread sends, its bytes are the sign of life.
  if (const std::unique_lock lock(sending_, std::try_to_lock); lock)
    send_if_idle(socket_, progress.empty() ? FrameKind::kHeartbeat : FrameKind::kProgress, progress);
}

void StoreClient::report_by(std::function<RankProgress()> progress) {
  const std::lock_guard reporting(reporting_);
  progress_ = std::move(progress);
}

bool StoreClient::send(FrameKind kind, const std::string& contents) {
  const std::lock_guard lock(sending_);
  return send_frame(socket_, kind, contents);
}

std::vector<std::string> StoreClient::all_gather(const std::string& mine) {
  std::unique_lock lock(mutex_);
  if (lost_) fail(ErrorKind::kDevice, "{}", lost_->sentence());
  answer_.reset();
  lock.unlock();
  send(FrameKind::kGather, mine);
  lock.lock();
  if (!changed_.wait_for(lock, options_.patience() + kGrace, [&] { return answer_ || lost_; }))
    fail(ErrorKind::kDevice, "rank {}: the other ranks did not answer in time", launch_.rank);
  if (!answer_) fail(ErrorKind::kDevice, "{}", lost_->sentence());
  const auto ranks = static_cast<size_t>(launch_.ranks);
  auto parts = split_runs(*answer_, ranks);
  if (!parts || parts->size() != ranks)
    fail(ErrorKind::kDevice, "rank {}: expected the values of {} ranks from rank 0, found {}", launch_.rank, ranks,
         parts ? parts->size() : 0);
  return std::move(*parts);
}

std::vector<std::string> StoreClient::exchange_among(const std::vector<int64_t>& ranks, const std::string& name,
                                                     const std::vector<std::string>& parts) {
  if (parts.size() != ranks.size())
    fail(ErrorKind::kInternal, "expected a part for each of {} ranks, found {}", ranks.size(), parts.size());
  std::vector<std::string> fields{name, text_of_ranks(ranks)};
  const bool alike = std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
  for (size_t i = 0; i < (alike ? 1 : parts.size()); ++i)
    if (!parts[i].empty()) {
      fields.push_back(alike ? "" : std::to_string(i));
      fields.push_back(parts[i]);
    }
  std::unique_lock lock(mutex_);
  if (lost_) fail(ErrorKind::kDevice, "{}", lost_->sentence());
  lock.unlock();
  send(FrameKind::kGroupExchange, joined_texts(fields));
  lock.lock();
  if (!changed_.wait_for(lock, options_.patience() + kGrace, [&] { return group_answers_.contains(name) || lost_; }))
    fail(ErrorKind::kDevice, "rank {}: the ranks {} did not meet in time", launch_.rank, text_of_ranks(ranks));
  const auto found = group_answers_.find(name);
  if (found == group_answers_.end()) fail(ErrorKind::kDevice, "{}", lost_->sentence());
  const std::vector<std::string> brought = std::move(found->second);
  group_answers_.erase(found);
  lock.unlock();
  std::vector<std::string> column(ranks.size());
  for (size_t i = 0; i + 1 < brought.size(); i += 2) {
    const int64_t from = number_or_none(brought[i]);
    if (from < 0 || static_cast<size_t>(from) >= ranks.size())
      fail(ErrorKind::kDevice, "rank {}: expected the values of {} ranks from rank 0, found those of another",
           launch_.rank, ranks.size());
    column[static_cast<size_t>(from)] = brought[i + 1];
  }
  return column;
}

std::optional<LostRank> StoreClient::fail_with(const std::string& text) {
  send(FrameKind::kFailure, text);
  return lost(kGrace);
}

void StoreClient::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  send(FrameKind::kBye, "");
}

std::optional<LostRank> StoreClient::lost(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return lost_.has_value(); });
  return lost_;
}

void StoreClient::on_loss(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !calling_; });
  callback_ = std::move(callback);
  if (!lost_ || !callback_) return;
  const std::function<void()> now = callback_;
  lock.unlock();
  now();
}

}  // namespace transom
