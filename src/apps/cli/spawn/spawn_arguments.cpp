// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/spawn/spawn_arguments.h"

#include <algorithm>

#include "apps/cli/spawn/accelerate_file.h"
#include "base/error.h"
#include "base/files/files.h"
#include "runtime/distributed/environment.h"

namespace transom {
namespace {

constexpr uint16_t kSpawnPort = 29500;  // as torchrun's, where several machines have to know it

// Keys of the file that no flag has said, and the words that they stand for, in front of the command's own: of what is
// given twice the last holds.
void add_accelerate_file(SpawnFlags& flags, SpawnPlan& plan) {
  if (flags.config_file.empty()) return;
  constexpr uint64_t kMostBytes = 1 << 20;
  AccelerateFile file = parse_accelerate_file(read_file(flags.config_file, kMostBytes), flags.config_file);
  if (flags.ranks == 0 && flags.per_machine == 0) flags.ranks = file.processes.value_or(0);
  if (flags.machines == 0) flags.machines = file.machines.value_or(0);
  if (flags.machine_rank < 0) flags.machine_rank = file.machine_rank.value_or(-1);
  if (flags.master_address.empty()) flags.master_address = file.main_process_ip.value_or("");
  if (flags.master_port == 0) flags.master_port = file.main_process_port.value_or(0);
  if (flags.hostfile.empty()) flags.hostfile = file.hostfile.value_or("");
  flags.use_mpi |= file.use_mpi;
  plan.notes = std::move(file.notes);
  const bool trains = !plan.any_program && (plan.command[0] == "train" || plan.command[0] == "evaluate");
  if (!trains && !file.words.empty())
    plan.notes.push_back(fmt::format("{} has no effect on {}", file.words[0], plan.command[0]));
  if (trains) plan.command.insert(plan.command.begin() + 1, file.words.begin(), file.words.end());
}

// Processes of the hosts of a file, in their order, as many as there are slots or as are wanted.
void place_on_hosts(const SpawnFlags& flags, SpawnPlan& plan) {
  std::vector<Host> hosts = parse_host_file(read_file(flags.hostfile, uint64_t{16} << 20), flags.hostfile);
  int64_t slots = 0, left = flags.ranks;
  for (Host& host : hosts) {
    if (flags.per_machine > 0) host.slots = flags.per_machine;
    slots += host.slots;
  }
  if (slots > kMostRanks) fail(ErrorKind::kUsage, "--hostfile: expected at most {} slots, found {}", kMostRanks, slots);
  if (flags.ranks > slots)
    fail(ErrorKind::kUsage, "--world_size: expected at most the {} slots of {}, found {}", slots, flags.hostfile,
         flags.ranks);
  if (flags.ranks == 0) left = slots;
  plan.ranks = left;
  bool all_here = true;
  for (const Host& host : hosts) {
    const int64_t count = std::min(host.slots, left);
    const bool here = is_this_machine(host.name);
    all_here &= here || count == 0;
    for (int64_t local = 0; local < count; ++local)
      plan.places.push_back({static_cast<int64_t>(plan.places.size()), local, count, here ? "" : host.name});
    left -= count;
  }
  if (plan.master_address.empty()) plan.master_address = all_here ? "127.0.0.1" : hosts[0].name;
  if (plan.master_port == 0 && !all_here) plan.master_port = kSpawnPort;
}

// Processes of this machine, which may be one of several that are each told so.
void place_here(const SpawnFlags& flags, SpawnPlan& plan) {
  const int64_t machines = std::max<int64_t>(1, flags.machines), machine = std::max<int64_t>(0, flags.machine_rank);
  if (machine >= machines)
    fail(ErrorKind::kUsage, "--machine_rank: expected a number below --num_machines, {}, found {}", machines, machine);
  int64_t here = flags.per_machine;
  if (here == 0) here = flags.ranks / machines;
  if (here == 0 || (flags.ranks > 0 && here * machines != flags.ranks))
    fail(ErrorKind::kUsage, "--world_size: expected as many processes on each of {} machines, found {}", machines,
         flags.ranks);
  plan.ranks = here * machines;
  if (plan.ranks > kMostRanks)
    fail(ErrorKind::kUsage, "--nproc: expected at most {} processes, found {}", kMostRanks, plan.ranks);
  for (int64_t local = 0; local < here; ++local) plan.places.push_back({machine * here + local, local, here, ""});
  if (machines > 1) {
    if (plan.master_address.empty())
      fail(ErrorKind::kUsage,
           "--main_process_ip is missing: the address of the machine of rank 0, which {} machines need", machines);
    if (flags.machine_rank < 0)
      fail(ErrorKind::kUsage, "--machine_rank is missing: which of the {} machines this is", machines);
    if (plan.master_port == 0) plan.master_port = kSpawnPort;
  }
  if (plan.master_address.empty()) plan.master_address = "127.0.0.1";
}

}  // namespace

std::vector<Option> SpawnFlags::options() {
  constexpr const char *kMachines = "Several machines", *kFailures = "Failures";
  return {
      {.name = "--nproc,--nproc_per_node",
       .value = &per_machine,
       .help = "processes on each machine",
       .default_value = "none"},
      {.name = "--world_size,--num_processes",
       .value = &ranks,
       .help = "processes on all machines together",
       .default_value = "none"},
      {.name = "--config_file", .value = &config_file, .help = "what accelerate config wrote (YAML)"},
      {.name = "--hostfile",
       .value = &hostfile,
       .help = "machines, one a line: host slots=8; those that are not this one are reached by ssh",
       .group = kMachines},
      {.name = "--use_mpi", .value = &use_mpi, .help = "let mpirun start the processes", .group = kMachines},
      {.name = "--use_deepspeed", .value = &use_deepspeed, .help = "refused, with what to say instead"},
      {.name = "--num_machines,--nnodes",
       .value = &machines,
       .help = "machines, on each of which this command is called",
       .group = kMachines,
       .default_value = "1"},
      {.name = "--machine_rank,--node_rank",
       .value = &machine_rank,
       .help = "which of them this is, from 0",
       .group = kMachines,
       .default_value = "none"},
      {.name = "--main_process_ip,--master_addr",
       .value = &master_address,
       .help = "address of the machine of rank 0",
       .group = kMachines},
      {.name = "--main_process_port,--master_port",
       .value = &master_port,
       .help = "port at which rank 0 listens",
       .group = kMachines,
       .default_value = "one that is free; of several machines 29500"},
      {.name = "--ssh", .value = &ssh, .help = "program that starts a process on another machine", .group = kMachines},
      {.name = "--max_restarts",
       .value = &max_restarts,
       .help = "how often all are started again after one failed; train resumes at its last checkpoint",
       .group = kFailures},
      {.name = "--no_prefix",
       .value = &no_prefix,
       .help = "lines of output as they are; else each begins with the rank that wrote it"},
  };
}

size_t spawn_words(const std::vector<std::string>& words, const std::vector<Option>& options) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("-") || words[i] == "--") return i;
    if (words[i].find('=') != words[i].npos) continue;
    std::string name = words[i];
    std::replace(name.begin() + std::min<ptrdiff_t>(2, std::ssize(name)), name.end(), '-', '_');
    bool takes_word = words[i] != "--help" && words[i] != "-h";
    for (const Option& option : options)
      if (("," + option.name + ",").find("," + name + ",") != std::string::npos)
        takes_word = !std::holds_alternative<bool*>(option.value);
    if (takes_word) ++i;
  }
  return words.size();
}

SpawnPlan plan_spawn(const std::vector<std::string>& words, SpawnFlags& flags) {
  SpawnPlan plan;
  plan.command = words;
  if (!plan.command.empty() && plan.command[0] == "--") {
    plan.any_program = true;
    plan.command.erase(plan.command.begin());
  }
  if (plan.command.empty())
    fail(ErrorKind::kUsage, "the command is missing that is to be started: transom spawn --nproc 4 train ...");
  if (!plan.any_program && plan.command[0].ends_with(".py"))
    fail(ErrorKind::kUsage, "{}: expected a command of transom (train), or, behind --, any program", plan.command[0]);
  add_accelerate_file(flags, plan);
  if (flags.use_deepspeed)
    fail(ErrorKind::kUsage,
         "--use_deepspeed: DeepSpeed's launcher is not used: leave it out, and give transom train --deepspeed FILE or "
         "--zero_stage");
  const auto expect = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      fail(ErrorKind::kUsage, "{}: expected a number from {} to {}, found {}", name, low, high, value);
  };
  expect("--nproc", flags.per_machine, 0, kMostRanks);
  expect("--world_size", flags.ranks, 0, kMostRanks);
  expect("--num_machines", flags.machines, 0, kMostRanks);
  expect("--machine_rank", flags.machine_rank, -1, kMostRanks - 1);
  expect("--master_port", flags.master_port, 0, 65535);
  expect("--max_restarts", flags.max_restarts, 0, 1000000);
  if (flags.ranks == 0 && flags.per_machine == 0 && flags.hostfile.empty())
    fail(ErrorKind::kUsage, "--nproc is missing: how many processes to start");
  plan.master_address = flags.master_address;
  plan.master_port = static_cast<uint16_t>(flags.master_port);
  plan.use_mpi = flags.use_mpi;
  plan.hostfile = flags.hostfile;
  if (!flags.hostfile.empty()) place_on_hosts(flags, plan);
  else if (flags.use_mpi) plan.ranks = flags.ranks > 0 ? flags.ranks : flags.per_machine;
  else place_here(flags, plan);
  return plan;
}

}  // namespace transom
