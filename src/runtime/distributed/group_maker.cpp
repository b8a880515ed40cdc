// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/group_maker.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device/exchange.h"
#include "runtime/device/flight_recorder.h"

namespace transom {

std::unique_ptr<Communicator> GroupMaker::make(const std::vector<int64_t>& ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end())
    fail(ErrorKind::kInternal, "rank {} makes a group that it is not in: [{}]", rank_, fmt::join(ranks, ", "));
  // The names of exchanges: all ranks of a group count alike.
  const std::string name = fmt::format("{}#{}", text_of_ranks(ranks), made_[ranks]++);
  std::vector<std::string> ids(ranks.size());
  CommunicatorId id{};
  if (place == ranks.begin()) {
    id = make_communicator_id(device_, options_);
    std::fill(ids.begin(), ids.end(), std::string(id.begin(), id.end()));
  }
  const std::string text = store_->exchange_among(ranks, name + "/id", ids).front();
  if (text.size() != id.size()) fail(ErrorKind::kDevice, "expected a communicator's id of {} bytes", id.size());
  std::copy(text.begin(), text.end(), id.begin());
  uint64_t round = 0;
  const UseExchange over_store(id, [&](const std::vector<std::string>& parts) {
    return store_->exchange_among(ranks, fmt::format("{}/{}", name, round++), parts);
  });
  auto made = std::make_unique<Communicator>(device_, id, static_cast<uint32_t>(place - ranks.begin()),
                                             static_cast<uint32_t>(ranks.size()));
  if (recorder_) made->record_in(recorder_, ranks);
  return made;
}

}  // namespace transom
