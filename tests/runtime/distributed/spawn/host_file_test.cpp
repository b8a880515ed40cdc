// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/host_file.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace transom {
namespace {

TEST(HostFile, IsReadAsEachLauncherWritesIt) {
  const auto hosts = parse_host_file(
      "# servers\nnode1 slots=8\n\n  node2\tslots=4 max_slots=9 # spare\r\nnode3:2\nnode4\nnode1 slots=1\n::1\n",
      "hosts");
  ASSERT_EQ(hosts.size(), 5u);
  const std::vector<std::pair<std::string, int64_t>> expected{
      {"node1", 9}, {"node2", 4}, {"node3", 2}, {"node4", 1}, {"::1", 1}};
  for (size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ(hosts[i].name, expected[i].first);
    EXPECT_EQ(hosts[i].slots, expected[i].second);
  }
}

TEST(HostFile, RefusesOtherLines) {
  for (const auto& [text, words] :
       std::vector<std::pair<std::string, std::string>>{{"", "expected a host a line"},
                                                        {"# nothing\n", "expected a host a line"},
                                                        {"a\nb slots=0\n", "hosts:2: slots: expected a number from 1"},
                                                        {"a slots=99999999999\n", "slots: expected"},
                                                        {"a slots=\n", "slots: expected"},
                                                        {"a gpus=3\n", "expected a host and slots=N, found 'gpus=3'"},
                                                        {"-oProxyCommand=sh slots=1\n", "expected the name of a host"},
                                                        {"a;reboot\n", "expected the name of a host"}}) {
    const std::string message = test::message_of([&, &text = text] { parse_host_file(text, "hosts"); });
    EXPECT_NE(message.find(words), message.npos) << text << ": " << message;
  }
}

TEST(HostFile, KnowsThisMachine) {
  EXPECT_TRUE(is_this_machine("localhost"));
  EXPECT_FALSE(is_this_machine("another.example"));
}

}  // namespace
}  // namespace transom
