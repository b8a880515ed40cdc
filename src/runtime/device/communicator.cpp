// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/communicator.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"

namespace transom {
namespace {

void expect_collectives(const Device& device) {
  if (!device.table().communicator_create)
    fail(ErrorKind::kDevice, "{}: this device has no collectives, so it cannot be one of several", device.name());
  if (!device.table().event_create)
    fail(ErrorKind::kDevice, "{}: expected events beside collectives, found none", device.name());
}

size_t count_of(const Buffer& buffer, DType dtype) { return buffer.bytes() / size_of(dtype); }

const char* name_of_collective(Collective kind) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

CommunicatorId make_communicator_id(const Device& device, const CommunicatorOptions& options) {
  expect_collectives(device);
  CommunicatorId id{};
  auto place = id.begin();
  for (const std::string& text :
       {options.transport, options.address, options.timeout > 0 ? std::to_string(options.timeout) : ""}) {
    if (text.size() + 1 > static_cast<size_t>(id.end() - place))
      fail(ErrorKind::kUsage, "ddp_backend or MASTER_ADDR: expected a name, found {}", quoted(text));
    place = std::copy(text.begin(), text.end(), place) + 1;
  }
  transom_error error{};
  device.expect_ok(device.table().communicator_id(id.data(), &error), error);
  return id;
}

Communicator::Communicator(Device& device, const CommunicatorId& id, uint32_t rank, uint32_t ranks)
    : device_(device), rank_(rank), ranks_(ranks) {
  static std::atomic<uint64_t> last{0};
  number_ = ++last;
  expect_collectives(device);
  const transom_plugin& table = device.table();
  transom_error error{};
  device.expect_ok(table.communicator_create(device.handle(), id.data(), rank, ranks, &handle_, &error), error);
  try {
    device.expect_ok(table.stream_create(device.handle(), &stream_, &error), error);
    device.expect_ok(table.event_create(device.handle(), &event_, &error), error);
  } catch (...) {
    if (stream_) table.stream_destroy(stream_);
    table.communicator_destroy(handle_);
    throw;
  }
}

Communicator::~Communicator() {
  groups_.clear();
  const transom_plugin& table = device_.table();
  table.event_destroy(event_);
  table.stream_destroy(stream_);
  table.communicator_destroy(handle_);
}

void Communicator::follow_device() {
  const auto turn = device_.take_turn();
  transom_error error{};
  device_.expect_ok(device_.table().event_record(event_, device_.stream(), &error), error);
  device_.expect_ok(device_.table().event_wait(event_, stream_, &error), error);
}

void Communicator::record_in(std::shared_ptr<FlightRecorder> recorder, const std::vector<int64_t>& ranks) {
  recorder_ = std::move(recorder);
  recorded_ranks_ = ranks;
  recorded_group_ = text_of_ranks(ranks);
}

std::string Communicator::message_group(uint32_t from, uint32_t to) const {
  if (!recorder_ || std::max(from, to) >= recorded_ranks_.size()) return "";
  return fmt::format("{}>{}", recorded_ranks_[from], recorded_ranks_[to]);
}

template <typename Issue>
void Communicator::issue(std::string_view group, std::string_view operation, uint64_t bytes, DType dtype,
                         Issue&& issue) {
  const uint64_t ticket = recorder_ ? recorder_->begin(group, operation, bytes, dtype) : 0;
  follow_device();
  transom_error error{};
  device_.expect_ok(issue(error), error);
  if (recorder_) recorder_->issued(ticket, stream_);
}

void Communicator::start(Collective kind, const Buffer& from, const Buffer& to, DType dtype) {
  const transom_plugin& table = device_.table();
  const bool gathers = kind == Collective::kAllGather, scatters = kind == Collective::kReduceScatter;
  const size_t parts_of_from = gathers ? 1 : ranks_, parts_of_to = scatters ? 1 : ranks_;
  const size_t count = count_of(from, dtype);
  if (kind != Collective::kAllReduce &&
      (count % parts_of_from != 0 || from.bytes() / parts_of_from * parts_of_to != to.bytes()))
    fail("a collective of {} ranks: {} bytes do not become {}", ranks_, from.bytes(), to.bytes());
  if (kind == Collective::kAllReduce && from.bytes() != to.bytes())
    fail("a sum of {} bytes is to become {}", from.bytes(), to.bytes());
  if (kind == Collective::kAllToAll && !table.all_to_all)
    fail(ErrorKind::kDevice, "{}: not supported: all_to_all", device_.name());
  const transom_binding source{from.handle(), 0}, target{to.handle(), 0};
  const auto type = static_cast<int32_t>(dtype);
  issue(recorded_group_, name_of_collective(kind), std::max(from.bytes(), to.bytes()), dtype,
        [&](transom_error& error) {
          switch (kind) {
            case Collective::kAllGather:
              return table.all_gather(handle_, stream_, source, target, count, type, &error);
            case Collective::kReduceScatter:
              return table.reduce_scatter(handle_, stream_, source, target, count / ranks_, type, TRANSOM_SUM, &error);
            case Collective::kAllToAll:
              return table.all_to_all(handle_, stream_, source, target, count / ranks_, type, &error);
            case Collective::kAllReduce:
              break;
          }
          return table.all_reduce(handle_, stream_, source, target, count, type, TRANSOM_SUM, &error);
        });
}

void Communicator::start_broadcast(const Buffer& buffer, DType dtype) {
  issue(recorded_group_, "broadcast", buffer.bytes(), dtype, [&](transom_error& error) {
    return device_.table().broadcast(handle_, stream_, {buffer.handle(), 0}, count_of(buffer, dtype),
                                     static_cast<int32_t>(dtype), 0, &error);
  });
}

void Communicator::start_send(const Buffer& buffer, DType dtype, uint32_t to) {
  if (!device_.table().send) fail(ErrorKind::kDevice, "{}: not supported: messages between ranks", device_.name());
  issue(message_group(rank_, to), "message", buffer.bytes(), dtype, [&](transom_error& error) {
    return device_.table().send(handle_, stream_, {buffer.handle(), 0}, count_of(buffer, dtype),
                                static_cast<int32_t>(dtype), to, &error);
  });
}

void Communicator::start_receive(const Buffer& buffer, DType dtype, uint32_t from) {
  if (!device_.table().receive) fail(ErrorKind::kDevice, "{}: not supported: messages between ranks", device_.name());
  issue(message_group(from, rank_), "message", buffer.bytes(), dtype, [&](transom_error& error) {
    return device_.table().receive(handle_, stream_, {buffer.handle(), 0}, count_of(buffer, dtype),
                                   static_cast<int32_t>(dtype), from, &error);
  });
}

void Communicator::wait() {
  const auto turn = device_.take_turn();
  transom_error error{};
  device_.expect_ok(device_.table().event_record(event_, stream_, &error), error);
  device_.expect_ok(device_.table().event_wait(event_, device_.stream(), &error), error);
}

void Communicator::record(transom_event* event) {
  transom_error error{};
  device_.expect_ok(device_.table().event_record(event, stream_, &error), error);
}

Communicator& Communicator::group(const std::vector<int64_t>& ranks) {
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), static_cast<int64_t>(rank_));
  if (place == ranks.end() || *place != rank_ || ranks.back() >= ranks_ || ranks.front() < 0)
    fail("expected a group of ranks below {} with this rank, {}, in it, found [{}]", ranks_, rank_,
         fmt::join(ranks, ", "));
  if (ranks.size() == ranks_) return *this;
  {
    const std::lock_guard lock(groups_mutex_);
    if (const auto found = groups_.find(ranks); found != groups_.end()) return *found->second;
  }
  if (!make_group_) fail(ErrorKind::kDevice, "{}: expected a process group that makes groups of ranks", device_.name());
  std::unique_ptr<Communicator> made = make_group_(ranks);
  const std::lock_guard lock(groups_mutex_);
  if (aborted_) fail(ErrorKind::kDevice, "{}: the group of all ranks was given up", device_.name());
  return *groups_.emplace(ranks, std::move(made)).first->second;
}

void Communicator::abort() {
  if (!device_.table().communicator_abort) return;
  device_.table().communicator_abort(handle_);
  const std::lock_guard lock(groups_mutex_);
  aborted_ = true;
  for (const auto& [ranks, group] : groups_) group->abort();
}

}  // namespace transom
