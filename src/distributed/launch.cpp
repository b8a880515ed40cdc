// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "transom/device.h"
#include "transom/distributed.h"

namespace transom {
namespace {

using Names = std::initializer_list<const char*>;

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

std::optional<int64_t> number(const char* name, int64_t low, int64_t high) {
  const char* text = variable(name);
  if (!text) return std::nullopt;
  const std::string_view digits = text;
  int64_t value = 0;
  const auto [end, status] = std::from_chars(digits.begin(), digits.end(), value);
  if (status != std::errc() || end != digits.end() || value < low || value > high)
    fail(ErrorKind::kUsage, "{}: expected a number from {} to {}, found {}", name, low, high, quoted(digits));
  return value;
}

std::optional<int64_t> first_number(Names names, int64_t low, int64_t high) {
  for (const char* name : names)
    if (const auto value = number(name, low, high)) return value;
  return std::nullopt;
}

std::string first_text(Names names) {
  for (const char* name : names)
    if (const char* text = variable(name)) return text;
  return "";
}

constexpr int64_t kMostRanks = 65536;

// Jobs that mpirun launches side by side must not meet at one port; they know it from their job's name.
uint16_t port_of_job(const std::string& job) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<uint16_t>(20000 + hash % 10000);
}

}  // namespace

Launch launch_of_environment() {
  Launch launch;
  const bool by_torch = variable("RANK") && variable("WORLD_SIZE");
  const bool by_mpi = variable("OMPI_COMM_WORLD_SIZE") || variable("PMI_SIZE");
  if (!by_torch && !by_mpi) {
    if (variable("WORLD_SIZE") && number("WORLD_SIZE", 1, kMostRanks) > 1)
      fail(ErrorKind::kUsage, "WORLD_SIZE is {}, but RANK is not set; set both, as torchrun does",
           variable("WORLD_SIZE"));
    return launch;
  }
  if (by_torch) {
    launch.ranks = *number("WORLD_SIZE", 1, kMostRanks);
    launch.rank = *number("RANK", 0, kMostRanks);
    launch.local_rank = number("LOCAL_RANK", 0, kMostRanks).value_or(0);
    launch.local_ranks = number("LOCAL_WORLD_SIZE", 1, kMostRanks).value_or(launch.local_rank + 1);
    if (launch.ranks > 1 && !variable("MASTER_ADDR"))
      fail(ErrorKind::kUsage, "WORLD_SIZE is {}, but MASTER_ADDR is not set: the address of rank 0", launch.ranks);
  } else {
    launch.ranks = *first_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1, kMostRanks);
    launch.rank = first_number({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0, kMostRanks).value_or(0);
    launch.local_rank =
        first_number({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, 0, kMostRanks).value_or(launch.rank);
    launch.local_ranks =
        first_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1, kMostRanks).value_or(launch.ranks);
    if (launch.local_ranks < launch.ranks && !variable("MASTER_ADDR"))
      fail(ErrorKind::kUsage,
           "the processes are on several servers, but MASTER_ADDR is not set: give mpirun -x MASTER_ADDR=<address of "
           "rank 0>");
  }
  if (launch.rank >= launch.ranks)
    fail(ErrorKind::kUsage, "RANK: expected a number below WORLD_SIZE, {}, found {}", launch.ranks, launch.rank);
  launch.job = first_text({"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"});
  launch.master_address = first_text({"MASTER_ADDR"});
  if (launch.master_address.empty()) launch.master_address = "127.0.0.1";
  if (const auto port = number("MASTER_PORT", 1, 65535)) launch.master_port = static_cast<uint16_t>(*port);
  else launch.master_port = by_torch ? 29500 : port_of_job(launch.job);
  // torchrun's agent listens at its port itself.
  if (first_text({"TORCHELASTIC_USE_AGENT_STORE"}) == "True")
    launch.master_port = launch.master_port == 65535 ? 65534 : static_cast<uint16_t>(launch.master_port + 1);
  return launch;
}

std::string device_of_process(const std::string& device) {
  const Launch launch = launch_of_environment();
  std::string name = device.empty() ? first_text({"TRANSOM_DEVICE"}) : device;
  if (launch.ranks == 1 || name.find(':') != name.npos) return device;
  int64_t count = 0;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.reason.empty() || (name.empty() && info.priority == 0)) continue;
    const std::string kind = info.name.substr(0, info.name.find(':'));
    if (name.empty()) name = kind;  // the best
    count += kind == name;
  }
  if (count <= 1) return device;
  if (launch.local_rank >= count)
    fail(ErrorKind::kUsage, "process {} of this server has no device: there are {} of {}", launch.local_rank, count,
         name);
  return name + ":" + std::to_string(launch.local_rank);
}

}  // namespace transom
