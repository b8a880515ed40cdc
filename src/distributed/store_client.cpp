// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "distributed/store.h"

namespace transom {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 30;
constexpr auto kGrace = std::chrono::seconds(5);  // that the server has to tell who is late

std::string sentence(const LostRank& lost) {
  return lost.text.empty() ? fmt::format("rank {} is lost: its process ended without a word", lost.rank)
                           : fmt::format("rank {} is lost: {}", lost.rank, lost.text);
}

int64_t number_of(const std::string& text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

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

StoreClient::StoreClient(const Launch& launch, double timeout)
    : launch_(launch), timeout_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout))) {
  const Clock::time_point end = Clock::now() + timeout_;
  socket_ = connect_to(launch.master_address, launch.master_port, end);
  send_frame(socket_, FrameKind::kHello,
             joined_texts({std::to_string(launch.rank), std::to_string(launch.ranks), launch.job}));
  thread_ = std::thread([this] { listen(); });
  std::unique_lock lock(mutex_);
  const bool news = changed_.wait_until(lock, end, [&] { return welcomed_ || lost_; });
  if (welcomed_) return;
  lock.unlock();
  socket_.shut();
  thread_.join();
  if (!news)
    fail("rank {}: not all of the {} ranks came to {}:{} in time", launch.rank, launch.ranks, launch.master_address,
         launch.master_port);
  if (lost_->text.empty())
    fail("rank {}: {}:{} refused it; expected rank 0 of the same job there, with WORLD_SIZE {} and no other rank {}",
         launch.rank, launch.master_address, launch.master_port, launch.ranks, launch.rank);
  fail("{}", sentence(*lost_));
}

StoreClient::~StoreClient() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  socket_.shut();
  if (thread_.joinable()) thread_.join();
}

void StoreClient::listen() {
  FrameReader reader(kMostBytes);
  const auto lose = [&](LostRank lost) {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      if (lost_ || leaving_) return;
      lost_ = std::move(lost);
      callback = callback_;
    }
    changed_.notify_all();
    if (callback) callback();
  };
  while (reader.read(socket_)) {
    while (const auto frame = reader.next()) {
      if (frame->kind == FrameKind::kLost) {
        const auto fields = split_texts(frame->contents);
        if (fields && fields->size() == 3) lose({number_of((*fields)[0]), (*fields)[1], number_of((*fields)[2])});
        continue;
      }
      const std::lock_guard lock(mutex_);
      if (frame->kind == FrameKind::kWelcome) welcomed_ = true;
      if (frame->kind == FrameKind::kAll) answer_ = frame->contents;
      changed_.notify_all();
    }
  }
  // Rank 0 serves: without it there is nobody else to tell.
  lose({0, "", launch_.rank == 0 ? 0 : 1});
}

std::vector<std::string> StoreClient::all_gather(const std::string& mine) {
  std::unique_lock lock(mutex_);
  if (lost_) fail(ErrorKind::kDevice, "{}", sentence(*lost_));
  answer_.reset();
  lock.unlock();
  send_frame(socket_, FrameKind::kGather, mine);
  lock.lock();
  if (!changed_.wait_for(lock, timeout_ + kGrace, [&] { return answer_ || lost_; }))
    fail(ErrorKind::kDevice, "rank {}: the other ranks did not answer in time", launch_.rank);
  if (!answer_) fail(ErrorKind::kDevice, "{}", sentence(*lost_));
  auto parts = split_texts(*answer_);
  if (!parts || parts->size() != static_cast<size_t>(launch_.ranks))
    fail(ErrorKind::kDevice, "rank {}: expected the values of {} ranks from rank 0, found {}", launch_.rank,
         launch_.ranks, parts ? parts->size() : 0);
  return std::move(*parts);
}

std::optional<LostRank> StoreClient::fail_with(const std::string& text) {
  send_frame(socket_, FrameKind::kFailure, text);
  return lost(std::chrono::seconds(2));
}

void StoreClient::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  send_frame(socket_, FrameKind::kBye, "");
}

std::optional<LostRank> StoreClient::lost(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return lost_.has_value(); });
  return lost_;
}

void StoreClient::on_loss(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  callback_ = std::move(callback);
  const bool now = lost_.has_value() && callback_;
  lock.unlock();
  if (now) callback_();
}

}  // namespace transom
