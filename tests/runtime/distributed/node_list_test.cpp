// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/node_list.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace transom {
namespace {

using Hosts = std::vector<std::string>;
using test::message_of;

TEST(NodeList, IsExpandedAsScontrolDoes) {
  const auto hosts = [](const char* text) { return hosts_of_node_list("NODES", text); };
  EXPECT_EQ(hosts("n1"), (Hosts{"n1"}));
  EXPECT_EQ(hosts("n[0-3]"), (Hosts{"n0", "n1", "n2", "n3"}));
  EXPECT_EQ(hosts("gpu[008-010,12]"), (Hosts{"gpu008", "gpu009", "gpu010", "gpu12"}));
  EXPECT_EQ(hosts("login,n[1,3]-ib,x"), (Hosts{"login", "n1-ib", "n3-ib", "x"}));
  EXPECT_EQ(hosts("r[0-1]c[08-09]"), (Hosts{"r0c08", "r0c09", "r1c08", "r1c09"}));
  EXPECT_EQ(hosts("a-b-7"), (Hosts{"a-b-7"}));
}

TEST(NodeList, IsRefusedWhereItIsNone) {
  for (const char* text : {"", "n[", "n[]", "n]", "n[0-", "n[3-1]", "n[a-b]", "n,", "n[[0-1]]", "n[0-99999999]",
                           "n[0-9999]m[0-9999]", "n[-3]"}) {
    const std::string message = message_of([&] { hosts_of_node_list("SLURM_STEP_NODELIST", text); });
    EXPECT_NE(message.find("SLURM_STEP_NODELIST: expected a list of hosts"), std::string::npos) << text << message;
  }
}

TEST(TasksOfNodes, AreRunLengths) {
  EXPECT_EQ(tasks_of_nodes("TASKS", "5,1(x3)"), (std::vector<int64_t>{5, 1, 1, 1}));
  EXPECT_EQ(tasks_of_nodes("TASKS", "8"), (std::vector<int64_t>{8}));
  for (const char* text : {"", "x", "3(x", "3(xy)", "3(x99999999)", "1,,2", "-1"})
    EXPECT_NE(message_of([&] { tasks_of_nodes("TASKS", text); }).find("TASKS: expected counts"), std::string::npos)
        << text;
}

}  // namespace
}  // namespace transom
