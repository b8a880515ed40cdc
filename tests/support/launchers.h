// SPDX-License-Identifier: Apache-2.0
// The variables that launchers set, as real processes of them printed.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace transom::test {

using Variables = std::map<std::string, std::string>;

// Without any variable that a launcher sets.
inline void clear_launch() {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "GROUP_RANK",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_USE_AGENT_STORE",
                           "TORCHELASTIC_RESTART_COUNT",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "OMPI_MCA_ess_base_jobid",
                           "MV2_COMM_WORLD_RANK",
                           "MV2_COMM_WORLD_SIZE",
                           "MV2_COMM_WORLD_LOCAL_RANK",
                           "MV2_COMM_WORLD_LOCAL_SIZE",
                           "PMI_SIZE",
                           "PMI_RANK",
                           "PMI_JOBID",
                           "PMI_LOCAL_RANK",
                           "PMI_LOCAL_SIZE",
                           "MPI_LOCALRANKID",
                           "MPI_LOCALNRANKS",
                           "PMIX_NAMESPACE",
                           "PMIX_RANK",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_ID",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_LOCALID",
                           "SLURM_NODEID",
                           "SLURM_NNODES",
                           "SLURM_TASKS_PER_NODE",
                           "SLURM_STEP_TASKS_PER_NODE",
                           "SLURM_STEP_NODELIST",
                           "SLURM_JOB_NODELIST",
                           "SLURM_RESTART_COUNT"})
    ::unsetenv(name);
}

inline void set_launch(const Variables& variables) {
  clear_launch();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

// Task `rank` of srun on servers with so many tasks each, "n[0-3]".
inline Variables srun_variables(int64_t rank, const std::vector<int64_t>& tasks) {
  int64_t node = 0, local = rank, all = 0;
  std::string counts;
  for (const int64_t count : tasks) {
    all += count;
    counts += (counts.empty() ? "" : ",") + std::to_string(count);
  }
  while (local >= tasks[static_cast<size_t>(node)]) local -= tasks[static_cast<size_t>(node++)];
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(all)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(all)},
          {"SLURM_LOCALID", std::to_string(local)},
          {"SLURM_NODEID", std::to_string(node)},
          {"SLURM_NNODES", std::to_string(tasks.size())},
          {"SLURM_TASKS_PER_NODE", counts},
          {"SLURM_STEP_TASKS_PER_NODE", counts},
          {"SLURM_STEP_NODELIST", tasks.size() == 1 ? "n0" : "n[0-" + std::to_string(tasks.size() - 1) + "]"},
          {"SLURM_JOB_ID", "31"},
          {"SLURM_STEP_ID", "2"}};
}

}  // namespace transom::test
