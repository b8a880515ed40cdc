// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "support/message.h"
#include "transom/distributed.h"

namespace transom {
namespace {

using test::message_of;

// The launch that an environment of these variables tells of.
class LaunchOfEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static Launch with(const std::map<std::string, std::string>& variables) {
    clear();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    return launch_of_environment();
  }
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
          "TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
      ::unsetenv(name);
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
  const std::map<std::string, std::string> first{{"OMPI_COMM_WORLD_RANK", "3"},
                                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                 {"OMPI_MCA_ess_base_jobid", "77"}};
  std::map<std::string, std::string> second = first;
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
  const std::map<std::string, std::string> good{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}};
  const auto message_with = [&](const std::string& name, const std::string& value) {
    std::map<std::string, std::string> variables = good;
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
  const std::map<std::string, std::string> two_servers{{"OMPI_COMM_WORLD_RANK", "3"},
                                                       {"OMPI_COMM_WORLD_SIZE", "4"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_NE(message_of([&] { with(two_servers); }).find("MASTER_ADDR"), std::string::npos);
}

}  // namespace
}  // namespace transom
