// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/process_group.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "runtime/device/communicator.h"
#include "runtime/distributed/flight_files.h"
#include "runtime/distributed/group_maker.h"
#include "runtime/distributed/launch.h"

namespace transom {

ProcessGroup::ProcessGroup(const Launch& launch, const ProcessGroupOptions& options, std::shared_ptr<Device> device)
    : launch_(launch),
      device_(std::move(device)),
      recorder_(std::make_shared<FlightRecorder>(*device_)),
      flight_directory_(options.flight_recorder) {
  // Connections to rank 0, those of the device to other ranks, and what a process has open anyway.
  constexpr uint64_t kOthers = 256;
  allow_files(static_cast<uint64_t>(launch.ranks) * (is_main() ? 2 : 1) + kOthers);
  const StoreOptions store{.timeout = options.timeout};
  if (is_main()) server_ = std::make_unique<StoreServer>(launch, store);
  client_ = std::make_shared<StoreClient>(launch, store);
  client_->report_by([recorder = recorder_] { return progress_of(*recorder); });
  std::string failure;
  try {
    // All ranks compute with one kind of device; else their collectives would wait for each other for ever.
    const std::string kind = device_->name().substr(0, device_->name().find(':'));
    const std::vector<std::string> kinds = all_gather(kind);
    for (size_t rank = 0; rank < kinds.size(); ++rank)
      if (kinds[rank] != kinds[0])
        fail(ErrorKind::kDevice, "rank {} computes on {}, rank 0 on {}; give all of them the same --device", rank,
             quoted(kinds[rank]), quoted(kinds[0]));
    std::vector<int64_t> all(static_cast<size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    const auto maker = std::make_shared<GroupMaker>(
        *device_, client_, rank(),
        CommunicatorOptions{.transport = options.backend,
                            .address = launch_.master_address,
                            .timeout = static_cast<int64_t>(std::ceil(std::min<double>(options.timeout, UINT32_MAX)))},
        recorder_);
    device_->join(maker->make(all));
    device_->communicator()->make_groups_by([maker](const std::vector<int64_t>& ranks) { return maker->make(ranks); });
    client_->on_loss([this] {
      leave_flight_file();
      device_->communicator()->abort();
    });
  } catch (const Error& error) {
    const ErrorKind kind = error.kind();
    failure = error.what();
    if (!report_failure(kind, failure)) failure.clear();
    throw Error(kind, failure);
  }
}

ProcessGroup::~ProcessGroup() {
  if (!failed_) {
    // The device's connections stay until all are through, rank 0's server until all have said goodbye.
    try {
      barrier();
    } catch (const Error&) {
    }
    client_->on_loss({});
    client_->report_by({});
    device_->join(nullptr);
    client_->leave();
  }
  // After a failure the device keeps its communicator, which would keep the connection.
  if (Communicator* communicator = device_->communicator()) communicator->make_groups_by({});
  client_->report_by({});
  client_.reset();
  server_.reset();
}

std::vector<std::string> ProcessGroup::all_gather(const std::string& mine) {
  // Ranks give values of different lengths.
  const uint64_t ticket = recorder_->begin(kHostGroup, "gather", 0, DType::kUInt8);
  std::vector<std::string> all = client_->all_gather(mine);
  recorder_->ended(ticket);
  return all;
}

// While others wait or are told: where it cannot be written, the run's own failure is what is to be said.
void ProcessGroup::leave_flight_file() {
  if (flight_directory_.empty()) return;
  std::call_once(left_file_, [&] {
    const std::optional<LostRank> lost = client_->lost({});
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    try {
      write_flight_file(
          flight_directory_,
          {.rank = rank(),
           .ranks = size(),
           .host = host,
           .reason = lost ? lost->sentence() : "",
           .written = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(),
           .records = recorder_->records()});
    } catch (const Error&) {
    }
  });
}

double ProcessGroup::sum(double mine) {
  std::string bytes(sizeof mine, '\0');
  std::memcpy(bytes.data(), &mine, sizeof mine);
  double total = 0;
  for (const std::string& part : all_gather(bytes)) {
    double value = 0;
    if (part.size() != sizeof value)
      fail(ErrorKind::kDevice, "expected a number from each rank, found {} bytes", part.size());
    std::memcpy(&value, part.data(), sizeof value);
    total += value;
  }
  return total;
}

std::string ProcessGroup::from_main(const std::string& text) { return all_gather(is_main() ? text : "")[0]; }

std::vector<std::string> ProcessGroup::exchange(const std::string& name, const std::vector<std::string>& parts) {
  std::vector<int64_t> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return client_->exchange_among(all, name, parts);
}

std::vector<std::string> ProcessGroup::gather_on_main(const std::string& name, const std::string& mine) {
  std::vector<std::string> parts(static_cast<size_t>(size()));
  parts[0] = mine;
  std::vector<std::string> all = exchange(name, parts);
  return is_main() ? std::move(all) : std::vector<std::string>();
}

std::string ProcessGroup::from_main_by_name(const std::string& name, const std::string& text) {
  return exchange(name, std::vector<std::string>(static_cast<size_t>(size()), is_main() ? text : ""))[0];
}

void ProcessGroup::expect_all_there() {
  if (const auto lost = client_->lost(std::chrono::milliseconds(0))) fail(ErrorKind::kDevice, "{}", lost->sentence());
}

bool ProcessGroup::report_failure(ErrorKind kind, std::string& message) {
  if (failed_) return !message.empty();
  failed_ = true;
  message = fmt::format("rank {}: {}", rank(), message);
  // What fails on a device may follow from another rank's end, of which the news is on its way.
  std::optional<LostRank> lost = client_->lost(std::chrono::milliseconds(is_device_failure(kind) ? 1500 : 0));
  if (!lost) lost = client_->fail_with(message);
  recorder_->look();
  leave_flight_file();
  if (Communicator* communicator = device_->communicator()) communicator->abort();
  if (!lost) return true;
  if (lost->rank == rank() && lost->reporter == rank()) return true;
  message = lost->sentence();
  return lost->reporter == rank();
}

// ---- the group of this process

namespace {

std::unique_ptr<ProcessGroup>& the_group() {
  static std::unique_ptr<ProcessGroup> group;
  return group;
}

bool tried_to_join = false;

// A process that finds no device would leave the others waiting for it: it meets them once, to say so.
bool report_before_joining(ErrorKind kind, std::string& message) {
  constexpr double kPatience = 60;  // seconds; the others may have ended, too
  if (!is_device_failure(kind) || tried_to_join) return !message.empty();
  tried_to_join = true;
  try {
    const Launch launch = launch_of_environment();
    if (launch.ranks == 1) return !message.empty();
    std::unique_ptr<StoreServer> server;
    const StoreOptions store{.timeout = kPatience};
    if (launch.rank == 0) server = std::make_unique<StoreServer>(launch, store);
    StoreClient client(launch, store);
    const std::string mine = fmt::format("rank {}: {}", launch.rank, message);
    const std::optional<LostRank> lost = client.fail_with(mine);
    message = mine;
    return !lost || lost->rank == launch.rank;
  } catch (const Error&) {
    return !message.empty();
  }
}

}  // namespace

ProcessGroup* process_group() { return the_group().get(); }

void join_process_group(const ProcessGroupOptions& options) {
  const Launch launch = launch_of_environment();
  if (the_group()) return;
  if (launch.ranks == 1) return refuse_to_train_alone();
  tried_to_join = true;
  the_group() = std::make_unique<ProcessGroup>(launch, options, default_device());
}

void leave_process_group() { the_group().reset(); }

int64_t process_rank() { return the_group() ? the_group()->rank() : 0; }
int64_t process_count() { return the_group() ? the_group()->size() : 1; }

bool report_failure(ErrorKind kind, std::string& message) {
  return the_group() ? the_group()->report_failure(kind, message) : report_before_joining(kind, message);
}

}  // namespace transom
