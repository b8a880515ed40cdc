// SPDX-License-Identifier: Apache-2.0
// Rewards of a server on this machine, also one that is in trouble for a moment, or says what is none.
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "base/json/json.h"
#include "support/message.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

class RewardServer {
 public:
  RewardServer() {
    for (const char* name : {"no_proxy", "NO_PROXY"}) ::setenv(name, "127.0.0.1", 1);
    // A reward is the length of a completion and its row's number; a text that is empty has none.
    server_.Post("/score", [this](const httplib::Request& request, httplib::Response& response) {
      if (++asked == 1 && fails_once) {
        response.status = 503;
        return;
      }
      std::istringstream lines(request.body);
      std::string answer;
      for (std::string line; std::getline(lines, line);) {
        const Json row = parse_json(line, "a line");
        const auto text = row["completion"].get<std::string>();
        answer +=
            text.empty()
                ? "null\n"
                : dump_json(Json{{"reward", row["n"].get<double>() + 0.5 * static_cast<double>(text.size())}}) + "\n";
      }
      response.set_content(answer, "application/x-ndjson");
    });
    server_.Post("/short", [](const auto&, httplib::Response& response) { response.set_content("1\n", "text/plain"); });
    server_.Post("/words", [](const auto&, httplib::Response& response) {
      response.set_content("1\nvery good\n1", "text/plain");
    });
    server_.Post("/moved", [](const auto&, httplib::Response& response) { response.set_redirect("/score"); });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~RewardServer() {
    server_.stop();
    thread_.join();
  }
  RewardServer(const RewardServer&) = delete;
  RewardServer& operator=(const RewardServer&) = delete;
  std::string url(const std::string& path) const { return "http://127.0.0.1:" + std::to_string(port_) + path; }

  std::atomic<int> asked{0};
  bool fails_once = false;

 private:
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

std::vector<std::optional<double>> asked_of(const std::string& url) {
  RewardRequest request;
  request.prompts = {"a", "b", "c"};
  request.completions = {"word", "", "ü\n\"x\""};
  request.completion_ids = {{1}, {}, {2, 3}};
  request.columns["n"] = {"10", "20", "30"};
  return make_reward(url, {.columns = {"n"}, .data = "rows.jsonl"}).function(request);
}

TEST(RewardsOverHttp, AreThoseThatTheServerAnswers) {
  const RewardServer server;
  EXPECT_EQ(asked_of(server.url("/score")), (std::vector<std::optional<double>>{12, std::nullopt, 33}));
  EXPECT_EQ(make_reward(server.url("/score"), {}).name, "http");
}

TEST(RewardsOverHttp, AreAskedForAgainWhereTheServerIsInTrouble) {
  RewardServer server;
  server.fails_once = true;
  EXPECT_EQ(asked_of(server.url("/score")), (std::vector<std::optional<double>>{12, std::nullopt, 33}));
  EXPECT_EQ(server.asked, 2);
}

TEST(RewardsOverHttp, ThatAreNoneAreNamed) {
  const RewardServer server;
  const auto message = [&](const std::string& url) { return test::message_of([&] { asked_of(url); }); };
  EXPECT_NE(message(server.url("/short")).find("/short: expected 3 lines, a reward for each completion, found 1"),
            std::string::npos);
  EXPECT_NE(message(server.url("/words")).find("line 2 of the answer"), std::string::npos);
  EXPECT_NE(message(server.url("/nothing")).find("expected an answer of status 200, found 404"), std::string::npos);
  EXPECT_NE(message(server.url("/moved")).find("found 302"), std::string::npos);
  EXPECT_EQ(server.asked, 0);
  EXPECT_NE(message("http:").find("expected http:"), std::string::npos);
  EXPECT_NE(message("https:host").find("expected https://HOST/PATH"), std::string::npos);
}

TEST(RewardsOverHttp, OfNoServerEndTheRun) {
  std::string url;
  { url = RewardServer().url("/score"); }
  EXPECT_NE(test::message_of([&] { asked_of(url); }).find("--reward_funcs: " + url + ": "), std::string::npos);
}

}  // namespace
}  // namespace transom
