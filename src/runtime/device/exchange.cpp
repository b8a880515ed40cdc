// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/exchange.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <optional>

#include "base/error.h"

namespace transom {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<CommunicatorId, std::shared_ptr<const ExchangeParts>> exchanges;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

// Threads of this process that exchange under one id, again and again.
class ThreadRendezvous {
 public:
  std::vector<std::string> exchange(uint32_t rank, const std::vector<std::string>& parts) {
    std::unique_lock lock(mutex_);
    if (brought_.empty()) brought_.resize(parts.size());
    if (brought_.size() != parts.size() || brought_[rank])
      fail(ErrorKind::kDevice, "rank {} of {} comes twice, or with another number of ranks", rank, parts.size());
    brought_[rank] = parts;
    const size_t round = rounds_;
    if (std::all_of(brought_.begin(), brought_.end(), [](const auto& row) { return row.has_value(); })) {
      columns_.assign(parts.size(), {});
      for (auto& row : brought_)
        for (size_t to = 0; to < row->size(); ++to) columns_[to].push_back(std::move((*row)[to]));
      brought_.clear();
      ++rounds_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, kPatience, [&] { return rounds_ != round; })) {
      brought_.clear();
      fail(ErrorKind::kDevice,
           "rank {}: the other ranks of its communicator did not come; they are expected in this "
           "process, since it has joined no others",
           rank);
    }
    return std::move(columns_[rank]);  // the next round ends when all have come again
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(60);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::vector<std::string>>> brought_;
  std::vector<std::vector<std::string>> columns_;  // of the last round
  size_t rounds_ = 0;
};

// The rendezvous of an id; kept while a rank is in it.
std::shared_ptr<ThreadRendezvous> rendezvous_of(const CommunicatorId& id) {
  static std::mutex mutex;
  static auto& all = *new std::map<CommunicatorId, std::weak_ptr<ThreadRendezvous>>;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& item) { return item.second.expired(); });
  std::shared_ptr<ThreadRendezvous> found = all[id].lock();
  if (!found) all[id] = found = std::make_shared<ThreadRendezvous>();
  return found;
}

std::vector<std::string> exchange(const CommunicatorId& id, uint32_t rank, const std::vector<std::string>& parts) {
  std::shared_ptr<const ExchangeParts> known;
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().exchanges.find(id); found != registry().exchanges.end()) known = found->second;
  }
  return known ? (*known)(parts) : rendezvous_of(id)->exchange(rank, parts);
}

}  // namespace

UseExchange::UseExchange(const CommunicatorId& id, ExchangeParts exchange) : id_(id) {
  const std::lock_guard lock(registry().mutex);
  if (!registry().exchanges.emplace(id, std::make_shared<const ExchangeParts>(std::move(exchange))).second)
    fail(ErrorKind::kInternal, "a communicator of this id is being made already");
}

UseExchange::~UseExchange() {
  const std::lock_guard lock(registry().mutex);
  registry().exchanges.erase(id_);
}

transom_status exchange_of_host(const unsigned char id[256], uint32_t rank, uint32_t ranks, const transom_bytes* mine,
                                void (*take)(void* context, uint32_t rank, const void* data, size_t bytes),
                                void* context, transom_error* error) {
  try {
    if (rank >= ranks) fail("expected a rank below {}, found {}", ranks, rank);
    CommunicatorId key{};
    std::copy_n(id, key.size(), key.begin());
    std::vector<std::string> parts;
    for (uint32_t r = 0; r < ranks; ++r)
      parts.emplace_back(static_cast<const char*>(mine[r].data), mine[r].data ? mine[r].bytes : 0);
    const std::vector<std::string> column = exchange(key, rank, parts);
    if (column.size() != ranks)
      fail(ErrorKind::kDevice, "expected something from each of {} ranks, found {}", ranks, column.size());
    for (uint32_t r = 0; r < ranks; ++r) take(context, r, column[r].data(), column[r].size());
    return TRANSOM_OK;
  } catch (const Error& failure) {
    std::snprintf(error->text, sizeof error->text, "%s", failure.what());
    return is_device_failure(failure.kind()) ? TRANSOM_DEVICE_LOST : TRANSOM_INVALID_ARGUMENT;
  } catch (const std::exception& failure) {
    std::snprintf(error->text, sizeof error->text, "%s", failure.what());
    return TRANSOM_INTERNAL;
  }
}

}  // namespace transom
