// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/distributed/launch.h"
#include "support/launchers.h"
#include "support/message.h"
#include "transom/distributed.h"

namespace transom {
namespace {

using test::message_of;
using test::srun_variables;
using test::Variables;

// The launch that an environment of these variables tells of.
class LaunchOfEnvironment : public testing::Test {
 protected:
  void SetUp() override { test::clear_launch(); }
  void TearDown() override { test::clear_launch(); }
  static Launch with(const Variables& variables) {
    test::set_launch(variables);
    return launch_of_environment();
  }
  static void expect(const Variables& variables, int64_t rank, int64_t ranks, int64_t local_rank, int64_t local_ranks,
                     const std::string& address) {
    const Launch launch = with(variables);
    EXPECT_EQ(launch.rank, rank);
    EXPECT_EQ(launch.ranks, ranks);
    EXPECT_EQ(launch.local_rank, local_rank);
    EXPECT_EQ(launch.local_ranks, local_ranks);
    EXPECT_EQ(launch.master_address, address);
  }
  // Whether the one line of the refusal says all of these.
  static void expect_refusal(const Variables& variables, std::initializer_list<const char*> words) {
    const std::string message = message_of([&] { with(variables); });
    EXPECT_NE(message, "");
    EXPECT_EQ(message.find('\n'), message.npos);
    for (const char* word : words) EXPECT_NE(message.find(word), message.npos) << word << " in: " << message;
  }
  static Variables more(Variables variables, const Variables& others) {
    for (const auto& [name, value] : others) {
      if (value.empty()) variables.erase(name);
      else variables[name] = value;
    }
    return variables;
  }
};

TEST_F(LaunchOfEnvironment, IsOneProcessByItself) {
  const Launch launch = with({});
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.ranks, 1);
}

TEST_F(LaunchOfEnvironment, ReadsTorchrunsVariables) {
  const Launch launch = with({{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "10.0.0.1"},
                              {"MASTER_PORT", "1234"}});
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.ranks, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_ranks, 4);
  EXPECT_EQ(launch.master_address, "10.0.0.1");
  EXPECT_EQ(launch.master_port, 1234);
}

// The agent of torchrun listens at MASTER_PORT itself.
TEST_F(LaunchOfEnvironment, LeavesItsPortToTorchrunsAgent) {
  const Launch launch = with({{"RANK", "0"},
                              {"WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "localhost"},
                              {"MASTER_PORT", "1234"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(launch.master_port, 1235);
}

TEST_F(LaunchOfEnvironment, ReadsOpenMpisVariables) {
  const Variables first{{"OMPI_COMM_WORLD_RANK", "3"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                        {"OMPI_MCA_ess_base_jobid", "77"}};
  Variables second = first;
  second["OMPI_MCA_ess_base_jobid"] = "78";
  const Launch launch = with(first);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.ranks, 4);
  EXPECT_EQ(launch.local_rank, 3);
  EXPECT_EQ(launch.master_address, "127.0.0.1");
  // Jobs side by side meet at ports of their own.
  EXPECT_EQ(launch.master_port, with(first).master_port);
  EXPECT_NE(launch.master_port, with(second).master_port);
}

TEST_F(LaunchOfEnvironment, RefusesContradictions) {
  const Variables good{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}};
  const auto message_with = [&](const std::string& name, const std::string& value) {
    Variables variables = good;
    if (value.empty()) variables.erase(name);
    else variables[name] = value;
    return message_of([&] { with(variables); });
  };
  EXPECT_NO_THROW(with(good));
  EXPECT_NE(message_with("RANK", "2").find("RANK: expected a number below WORLD_SIZE, 2, found 2"), std::string::npos);
  EXPECT_NE(message_with("RANK", "one").find("RANK: expected a number"), std::string::npos);
  EXPECT_NE(message_with("WORLD_SIZE", "-3").find("WORLD_SIZE: expected a number"), std::string::npos);
  EXPECT_NE(message_with("MASTER_ADDR", "").find("MASTER_ADDR is not set"), std::string::npos);
  EXPECT_NE(message_with("MASTER_PORT", "123456").find("MASTER_PORT: expected a number"), std::string::npos);
  EXPECT_NE(message_with("RANK", "").find("RANK is not set"), std::string::npos);
}

TEST_F(LaunchOfEnvironment, NeedsAnAddressWhereMpirunUsesSeveralServers) {
  const Variables two_servers{{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_NE(message_of([&] { with(two_servers); }).find("MASTER_ADDR"), std::string::npos);
}

TEST_F(LaunchOfEnvironment, ReadsOpenMpi5AndPrterunWithItsPersonality) {
  const Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_RANK", "1"},
                            {"PMIX_NAMESPACE", "prterun-host-12@1"}};
  expect(variables, 1, 2, 1, 2, "127.0.0.1");
  EXPECT_EQ(with(variables).job, "prterun-host-12@1");
}

TEST_F(LaunchOfEnvironment, ReadsTheVariablesOfHydra) {
  const Variables one_server{{"PMI_RANK", "2"},        {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"},
                             {"MPI_LOCALNRANKS", "4"}, {"PMI_FD", "9"},   {"PMI_HOSTNAME", "n0"}};
  expect(one_server, 2, 4, 2, 4, "127.0.0.1");
  const Variables two_servers = more(one_server, {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  expect_refusal(two_servers, {"MASTER_ADDR"});
  expect(more(two_servers, {{"MASTER_ADDR", "n0"}}), 2, 4, 0, 2, "n0");
}

TEST_F(LaunchOfEnvironment, ReadsMvapichsVariables) {
  expect({{"MV2_COMM_WORLD_RANK", "1"},
          {"MV2_COMM_WORLD_SIZE", "2"},
          {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
          {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}},
         1, 2, 1, 2, "127.0.0.1");
}

TEST_F(LaunchOfEnvironment, IsATaskOfSrun) {
  expect(srun_variables(1, {2}), 1, 2, 1, 2, "127.0.0.1");
  // Slurm deals uneven shares, and rank 0 is on the first server.
  const std::vector<int64_t> servers{5, 1, 1, 1};
  expect(srun_variables(4, servers), 4, 8, 4, 5, "n0");
  expect(srun_variables(6, servers), 6, 8, 0, 1, "n0");
  expect(more(srun_variables(6, servers), {{"MASTER_ADDR", "10.0.0.9"}}), 6, 8, 0, 1, "10.0.0.9");
  expect(more(srun_variables(6, servers), {{"SLURM_STEP_TASKS_PER_NODE", "5,1(x3)"}}), 6, 8, 0, 1, "n0");
  // All ranks of a step meet at one port, those of another step elsewhere, and so do those of a job that was requeued.
  const uint16_t port = with(srun_variables(0, servers)).master_port;
  EXPECT_EQ(with(srun_variables(7, servers)).master_port, port);
  EXPECT_NE(with(more(srun_variables(0, servers), {{"SLURM_STEP_ID", "3"}})).master_port, port);
  EXPECT_NE(with(more(srun_variables(0, servers), {{"SLURM_RESTART_COUNT", "1"}})).master_port, port);
  EXPECT_EQ(with(more(srun_variables(0, servers), {{"MASTER_PORT", "4000"}})).master_port, 4000);
}

TEST_F(LaunchOfEnvironment, IsATaskOfSrunWithPmiOrPmix) {
  const std::vector<int64_t> servers{2, 2};
  const Variables task = srun_variables(3, servers),
                  pmi = more(task, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "31.2"}}),
                  pmix = more(task, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.31.2"}});
  expect(pmi, 3, 4, 1, 2, "n0");
  expect(pmix, 3, 4, 1, 2, "n0");
  expect_refusal(more(pmi, {{"PMI_RANK", "0"}}), {"PMI_RANK is 0", "SLURM_PROCID is 3", "set RANK"});
  expect_refusal(more(pmi, {{"PMI_SIZE", "2"}}), {"PMI_SIZE is 2", "SLURM_STEP_NUM_TASKS is 4", "set RANK"});
  expect_refusal(more(pmix, {{"PMIX_RANK", "0"}}), {"PMIX_RANK is 0", "SLURM_PROCID is 3"});
}

TEST_F(LaunchOfEnvironment, RefusesTasksOfSrunThatItCannotPlace) {
  const Variables task = srun_variables(3, {2, 2});
  expect_refusal(more(task, {{"SLURM_STEP_NODELIST", ""}}), {"SLURM_STEP_NODELIST", "set MASTER_ADDR"});
  expect_refusal(more(task, {{"SLURM_STEP_NODELIST", "n[0-"}}), {"SLURM_STEP_NODELIST: expected a list of hosts"});
  expect_refusal(more(task, {{"SLURM_LOCALID", ""}}), {"SLURM_LOCALID is not set"});
  expect_refusal(more(task, {{"SLURM_LOCALID", "2"}}), {"LOCAL_RANK: expected a number below"});
  expect_refusal(more(task, {{"SLURM_STEP_TASKS_PER_NODE", "many"}}), {"SLURM_STEP_TASKS_PER_NODE: expected counts"});
}

// What stands in a task of srun and starts processes itself knows better.
TEST_F(LaunchOfEnvironment, TrustsTheInnermostLauncher) {
  const Variables torchrun{
      {"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "8"}, {"MASTER_ADDR", "n0"}};
  expect(more(srun_variables(1, {1, 1}), torchrun), 9, 16, 1, 8, "n0");
  const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_RANK", "1"}};
  expect(more(srun_variables(0, {1, 1}), mpirun), 1, 2, 1, 2, "127.0.0.1");
}

// prterun without a personality: n processes that each would believe to be alone.
TEST_F(LaunchOfEnvironment, RefusesPmixWithoutASize) {
  const Variables prterun{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-host-7@1"}, {"PMIX_HOSTNAME", "host"}};
  expect_refusal(prterun, {"PMIX_RANK is '1'", "--personality ompi", "WORLD_SIZE"});
  expect_refusal(more(prterun, {{"PMIX_RANK", "0"}}), {"PMIX_RANK is '0'"});
  expect_refusal(more(srun_variables(0, {1, 1}), prterun), {"PMIX_RANK is '1'"});
  expect(more(prterun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), 0, 1, 0, 1, "127.0.0.1");
}

TEST_F(LaunchOfEnvironment, RefusesPmiWithoutAPlaceOnTheServer) {
  const Variables pmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
  expect_refusal(pmi, {"PMI_SIZE is 4", "LOCAL_RANK", "MASTER_ADDR"});
  expect(more(pmi, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}), 1, 4, 1, 4, "127.0.0.1");
  expect(more(pmi, {{"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}}), 1, 4, 1, 4, "127.0.0.1");
  expect({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, 0, 1, 0, 1, "127.0.0.1");
  expect_refusal({{"PMI_SIZE", "4"}}, {"PMI_SIZE is '4'", "PMI_RANK is not set"});
}

TEST_F(LaunchOfEnvironment, RefusesHalfOfAPair) {
  expect_refusal({{"RANK", "0"}}, {"RANK is '0'", "WORLD_SIZE is not set"});
  expect_refusal({{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not set"});
  expect_refusal(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
      {"LOCAL_RANK: expected a number below LOCAL_WORLD_SIZE"});
}

// A shell of sbatch or salloc is no task of a step, whatever it knows of the job.
TEST_F(LaunchOfEnvironment, IsOneProcessInTheShellOfASlurmJob) {
  const Variables shell{{"SLURM_JOB_ID", "31"}, {"SLURM_NTASKS", "1"}, {"SLURM_TASKS_PER_NODE", "1"},
                        {"SLURM_NNODES", "1"},  {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  for (const char* step : {"", "4294967291"}) {  // none, and that of batch scripts
    const Variables one = more(shell, {{"SLURM_STEP_ID", step}});
    EXPECT_EQ(with(one).ranks, 1);
    EXPECT_NO_THROW(refuse_to_train_alone());
    const Variables several = more(one, {{"SLURM_NTASKS", "8"}});
    EXPECT_EQ(with(several).ranks, 1);  // for what is no training
    const std::string message = message_of(refuse_to_train_alone);
    EXPECT_NE(message.find("SLURM_NTASKS is 8"), message.npos) << message;
    EXPECT_NE(message.find("srun"), message.npos);
    with(more(several, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
    EXPECT_NO_THROW(refuse_to_train_alone());
  }
  with(more(srun_variables(0, {1}), {{"SLURM_NTASKS", "8"}}));  // srun -n 1 in a larger job
  EXPECT_NO_THROW(refuse_to_train_alone());
}

// A round that torchrun started anew must not meet a rank of the round before.
TEST_F(LaunchOfEnvironment, KnowsRestartsApart) {
  const Variables first{{"RANK", "1"},
                        {"WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "n0"},
                        {"TORCHELASTIC_RUN_ID", "a"},
                        {"TORCHELASTIC_RESTART_COUNT", "0"}};
  EXPECT_EQ(with(first).job, "a");
  EXPECT_NE(with(more(first, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job, "a");
}

}  // namespace
}  // namespace transom
