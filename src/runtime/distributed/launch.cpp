// SPDX-License-Identifier: Apache-2.0
// The launchers that are known, in the order in which they are asked: one may run below another (torchrun in a task of
// srun), and what each sets is more exact than what stands behind it.
#include "runtime/distributed/launch.h"
#include "base/error.h"
#include "base/numbers/fnv.h"
#include "runtime/distributed/environment.h"
#include "runtime/distributed/node_list.h"
#include "transom/distributed.h"

namespace transom {
namespace {

constexpr uint16_t kTorchPort = 29500;

// Jobs that run side by side must not meet at one port; they know it from their job's name.
uint16_t port_of_job(const std::string& job) { return static_cast<uint16_t>(20000 + fnv1a(job) % 10000); }

// Names of the variables of a launcher that gives all four numbers.
struct FourNumbers {
  const char *rank, *ranks, *local_rank, *local_ranks;
};

Launch read(const FourNumbers& names) {
  Launch launch;
  launch.ranks = expected_number(names.ranks, names.rank, 1, kMostRanks);
  launch.rank = expected_number(names.rank, names.ranks, 0, kMostRanks);
  launch.local_rank = expected_number(names.local_rank, names.ranks, 0, kMostRanks);
  launch.local_ranks = expected_number(names.local_ranks, names.ranks, 1, kMostRanks);
  return launch;
}

// ---- each launcher; nothing where it did not launch this process

std::optional<Launch> by_torchrun() {
  if (!variable("RANK") && !variable("WORLD_SIZE")) return std::nullopt;
  if (!variable("RANK") && number("WORLD_SIZE", 1, kMostRanks) == 1) return std::nullopt;
  Launch launch;
  launch.ranks = expected_number("WORLD_SIZE", "RANK", 1, kMostRanks);
  launch.rank = expected_number("RANK", "WORLD_SIZE", 0, kMostRanks);
  launch.local_rank = number("LOCAL_RANK", 0, kMostRanks).value_or(0);
  launch.local_ranks = number("LOCAL_WORLD_SIZE", 1, kMostRanks).value_or(launch.local_rank + 1);
  if (launch.ranks > 1 && !variable("MASTER_ADDR"))
    fail(ErrorKind::kUsage, "WORLD_SIZE is {}, but MASTER_ADDR is not set: the address of rank 0", launch.ranks);
  launch.job = first_text({"TORCHELASTIC_RUN_ID"});
  launch.master_port = kTorchPort;
  return launch;
}

// Open MPI 4, and Open MPI 5 and prterun with its personality.
std::optional<Launch> by_open_mpi() {
  if (!variable("OMPI_COMM_WORLD_SIZE") && !variable("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  Launch launch = read(
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  launch.job = first_text({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  return launch;
}

std::optional<Launch> by_mvapich() {
  if (!variable("MV2_COMM_WORLD_SIZE") && !variable("MV2_COMM_WORLD_RANK")) return std::nullopt;
  Launch launch =
      read({"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"});
  launch.job = first_text({"PMI_JOBID"});
  return launch;
}

// mpiexec of MPICH, Intel MPI and MVAPICH.
std::optional<Launch> by_hydra() {
  if (!variable("PMI_SIZE") || !variable("MPI_LOCALRANKID")) return std::nullopt;
  Launch launch = read({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  launch.job = first_text({"PMI_JOBID"});
  return launch;
}

// Slurm's own PMIx server names what it starts; prterun may run below a task of srun.
bool is_of_slurm(std::string_view pmix_namespace) { return pmix_namespace.starts_with("slurm."); }

// A task of srun, whatever --mpi says. A shell of sbatch or salloc has SLURM_NTASKS too, but is no task of a step: its
// SLURM_STEP_ID is missing or one of the numbers that Slurm keeps for itself.
std::optional<Launch> by_srun() {
  constexpr int64_t kFirstReserved = 4294967290;
  const auto step = number("SLURM_STEP_ID", 0, UINT32_MAX);
  if (!variable("SLURM_PROCID") || !step || *step >= kFirstReserved) return std::nullopt;
  if (const char* other = variable("PMIX_NAMESPACE"); other && !is_of_slurm(other)) return std::nullopt;
  Launch launch;
  const char* size = variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  launch.ranks = expected_number(size, "SLURM_PROCID", 1, kMostRanks);
  launch.rank = expected_number("SLURM_PROCID", "SLURM_STEP_ID", 0, kMostRanks);
  for (const char* name : {"PMIX_RANK", "PMI_RANK"})
    if (const auto said = number(name, 0, kMostRanks); said && *said != launch.rank)
      fail(ErrorKind::kUsage, "{} is {}, but SLURM_PROCID is {}; set RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR",
           name, *said, launch.rank);
  if (const auto said = number("PMI_SIZE", 1, kMostRanks); said && *said != launch.ranks)
    fail(ErrorKind::kUsage, "PMI_SIZE is {}, but {} is {}; set RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR", *said,
         size, launch.ranks);
  launch.local_rank = expected_number("SLURM_LOCALID", "SLURM_PROCID", 0, kMostRanks);
  launch.local_ranks = launch.local_rank + 1;
  const int64_t node = number("SLURM_NODEID", 0, kMostRanks).value_or(0);
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const char* text = variable(name);
    if (!text) continue;
    const std::vector<int64_t> tasks = tasks_of_nodes(name, text);
    if (node < static_cast<int64_t>(tasks.size())) launch.local_ranks = tasks[static_cast<size_t>(node)];
    break;
  }
  launch.job = "slurm." + first_text({"SLURM_JOB_ID"}) + "." + std::to_string(*step);
  // The first task runs on the first server of the step.
  if (const char* nodes = variable("SLURM_STEP_NODELIST")) {
    const std::vector<std::string> hosts = hosts_of_node_list("SLURM_STEP_NODELIST", nodes);
    launch.master_address = hosts.size() > 1 ? hosts[0] : "127.0.0.1";
  } else if (launch.local_ranks < launch.ranks && !variable("MASTER_ADDR")) {
    fail(ErrorKind::kUsage,
         "the {} tasks of srun are on several servers, but neither SLURM_STEP_NODELIST nor MASTER_ADDR is set; set "
         "MASTER_ADDR to the address of task 0",
         launch.ranks);
  }
  return launch;
}

// prterun without a personality tells a process its rank, and not of how many.
std::optional<Launch> by_pmix() {
  if (!variable("PMIX_RANK")) return std::nullopt;
  fail(ErrorKind::kUsage,
       "PMIX_RANK is {}, but nothing says of how many processes; use prterun --personality ompi, or set RANK, "
       "WORLD_SIZE, LOCAL_RANK and MASTER_ADDR (RANK=0 WORLD_SIZE=1 to train alone)",
       quoted(first_text({"PMIX_RANK"})));
}

// Other launchers that speak PMI.
std::optional<Launch> by_pmi() {
  if (!variable("PMI_SIZE") && !variable("PMI_RANK")) return std::nullopt;
  Launch launch;
  launch.ranks = expected_number("PMI_SIZE", "PMI_RANK", 1, kMostRanks);
  launch.rank = expected_number("PMI_RANK", "PMI_SIZE", 0, kMostRanks);
  launch.job = first_text({"PMI_JOBID"});
  if (launch.ranks == 1) return launch;
  const char *local = variable("LOCAL_RANK") ? "LOCAL_RANK" : "PMI_LOCAL_RANK",
             *locals = variable("LOCAL_RANK") ? "LOCAL_WORLD_SIZE" : "PMI_LOCAL_SIZE";
  if (!variable(local) || !variable(locals))
    fail(ErrorKind::kUsage,
         "PMI_SIZE is {}, but nothing says which of a server's processes this is; set LOCAL_RANK, LOCAL_WORLD_SIZE and "
         "MASTER_ADDR",
         launch.ranks);
  launch.local_rank = *number(local, 0, kMostRanks);
  launch.local_ranks = *number(locals, 1, kMostRanks);
  return launch;
}

void check(const Launch& launch) {
  if (launch.rank >= launch.ranks)
    fail(ErrorKind::kUsage, "RANK: expected a number below WORLD_SIZE, {}, found {}", launch.ranks, launch.rank);
  if (launch.local_rank >= launch.local_ranks || launch.local_ranks > launch.ranks)
    fail(ErrorKind::kUsage,
         "LOCAL_RANK: expected a number below LOCAL_WORLD_SIZE, and that not above WORLD_SIZE, {}, found {} of {}",
         launch.ranks, launch.local_rank, launch.local_ranks);
}

// What the first launcher says that is known to have started this process.
std::optional<Launch> by_any_launcher() {
  for (const auto launcher : {by_torchrun, by_open_mpi, by_mvapich, by_hydra, by_srun, by_pmix, by_pmi})
    if (std::optional<Launch> launch = launcher()) return launch;
  return std::nullopt;
}

}  // namespace

Launch launch_of_environment() {
  std::optional<Launch> found = by_any_launcher();
  if (!found) return {};
  Launch launch = std::move(*found);
  check(launch);
  if (const char* address = variable("MASTER_ADDR")) launch.master_address = address;
  if (launch.master_address.empty()) {
    if (launch.local_ranks < launch.ranks)
      fail(ErrorKind::kUsage,
           "the processes are on several servers, but MASTER_ADDR is not set: give mpirun -x MASTER_ADDR=<address of "
           "rank 0>");
    launch.master_address = "127.0.0.1";
  }
  // What was launched anew must not meet what is left of the round before it.
  const std::string restart = first_text({"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"});
  if (!restart.empty() && restart != "0") launch.job += "#" + restart;
  if (const auto port = number("MASTER_PORT", 1, 65535)) launch.master_port = static_cast<uint16_t>(*port);
  else if (launch.master_port == 0) launch.master_port = port_of_job(launch.job);
  // torchrun's agent listens at its port itself.
  if (first_text({"TORCHELASTIC_USE_AGENT_STORE"}) == "True")
    launch.master_port = launch.master_port == 65535 ? 65534 : static_cast<uint16_t>(launch.master_port + 1);
  return launch;
}

void refuse_to_train_alone() {
  if (by_any_launcher()) return;
  const auto tasks = number("SLURM_NTASKS", 1, kMostRanks);
  if (tasks.value_or(1) > 1)
    fail(ErrorKind::kUsage,
         "SLURM_NTASKS is {}, but this process was not started by srun; start it with srun, or set RANK=0 and "
         "WORLD_SIZE=1 to train alone",
         *tasks);
}

}  // namespace transom
