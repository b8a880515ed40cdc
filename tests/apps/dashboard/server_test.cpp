// SPDX-License-Identifier: Apache-2.0
// The page's server: who may ask, what is told, what is obeyed.
#include <gtest/gtest.h>

#include <fstream>

#include "apps/dashboard/web/dashboard_server.h"
#include "apps/serve/http_client.h"
#include "base/error.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"

namespace transom::dashboard {
namespace {

class Dashboard : public testing::Test {
 protected:
  DashboardServer& serve(DashboardOptions options = {}) {
    server_ = std::make_unique<DashboardServer>(std::move(options), monitor_, control_);
    return *server_;
  }
  // Status and body.
  std::pair<int, std::string> ask(const std::string& head, const std::string& host = "localhost") {
    test::Client client(server_->port());
    client.send(head + " HTTP/1.1\r\nHost: " + host + "\r\n" + further_ + "Connection: close\r\n\r\n");
    while (client.receive(5)) {
    }
    const std::string& text = client.buffer();
    if (text.size() < 12) return {0, text};
    const size_t body = text.find("\r\n\r\n");
    return {std::stoi(text.substr(9, 3)), body == text.npos ? "" : text.substr(body + 4)};
  }
  std::string further_;
  std::shared_ptr<RunMonitor> monitor_ = std::make_shared<RunMonitor>();
  std::shared_ptr<RunControl> control_ = std::make_shared<RunControl>();
  std::unique_ptr<DashboardServer> server_;
};

TEST_F(Dashboard, TellsTheStateToThisMachineAlone) {
  serve();
  monitor_->begin(0, 10);
  monitor_->add("loss", 1, 0.5);
  monitor_->say("a name that is no UTF-8: \xff");
  const auto [status, body] = ask("GET /state");
  ASSERT_EQ(status, 200);
  const Json state = parse_json(body, "state");
  EXPECT_EQ(state.at("status").at("max_steps"), 10);
  EXPECT_EQ(state.at("series").at("loss"), Json({{1, 0.5}}));
  EXPECT_EQ(ask("GET /state", "evil.example").first, 403);
  EXPECT_EQ(ask("GET /state", "127.0.0.1.evil.example").first, 403);
  EXPECT_EQ(ask("GET /nothing").first, 404);
  EXPECT_EQ(ask("DELETE /").first, 405);
  EXPECT_EQ(ask("OPTIONS /stop").first, 405);
}

TEST_F(Dashboard, ThePageNeedsNothingFromElsewhere) {
  serve();
  std::string all;
  for (const char* path : {"GET /", "GET /dashboard.js", "GET /dashboard.css"}) {
    const auto [status, body] = ask(path);
    EXPECT_EQ(status, 200);
    all += body;
  }
  // The name of SVG is no address that is asked.
  for (size_t at = all.find("http"); at != all.npos; at = all.find("http", at + 1))
    EXPECT_EQ(all.substr(at, 26), "http://www.w3.org/2000/svg");
  EXPECT_EQ(all.find("//cdn"), all.npos);
}

TEST_F(Dashboard, ThePageHoldsTheStateAndNothingThatEndsItsElement) {
  serve();
  monitor_->update([](RunStatus& status) { status.model = "</script><script>alert(1)</script>"; });
  monitor_->add("loss", 3, 1.25);
  const std::string html = ask("GET /").second;
  EXPECT_EQ(html.find("alert(1)</script>"), html.npos);
  const std::string begin = "type=\"application/json\">";
  const size_t at = html.find(begin) + begin.size();
  const Json state = parse_json(html.substr(at, html.find("</script>", at) - at), "page");
  EXPECT_EQ(state.at("series").at("loss"), Json({{3, 1.25}}));
  EXPECT_EQ(state.at("status").at("model"), "</script><script>alert(1)</script>");
}

TEST_F(Dashboard, ObeysPostsThatNoOtherSiteCanMake) {
  serve();
  EXPECT_EQ(ask("POST /stop").first, 403);
  EXPECT_EQ(ask("GET /stop").first, 404);
  EXPECT_FALSE(control_->stop);
  further_ = "X-Transom-Dashboard: 1\r\nContent-Length: 0\r\n";
  EXPECT_EQ(ask("POST /pause").first, 200);
  EXPECT_TRUE(control_->pause);
  EXPECT_EQ(ask("POST /resume").first, 200);
  EXPECT_FALSE(control_->pause);
  EXPECT_EQ(ask("POST /save").first, 200);
  EXPECT_TRUE(control_->save);
  EXPECT_EQ(ask("POST /profile").first, 200);
  EXPECT_TRUE(control_->profile);
  EXPECT_EQ(ask("POST /format").first, 404);
  EXPECT_EQ(ask("POST /stop", "evil.example").first, 403);
  EXPECT_FALSE(control_->stop);
  EXPECT_EQ(ask("POST /stop").first, 200);
  EXPECT_TRUE(control_->stop);
}

TEST_F(Dashboard, AsksForAKeyWhereOthersCanReachIt) {
  const std::string address = serve({.host = "0.0.0.0"}).address();
  const size_t at = address.find("?key=");
  ASSERT_NE(at, address.npos) << address;
  const std::string query = address.substr(at);
  EXPECT_GE(query.size(), 5u + 32u);
  EXPECT_EQ(ask("GET /state", "some.host").first, 401);
  EXPECT_EQ(ask("GET /state?key=wrong", "some.host").first, 401);
  EXPECT_EQ(ask("GET /state" + query + "0", "some.host").first, 401);
  EXPECT_EQ(ask("GET /state" + query, "some.host").first, 200);
  EXPECT_EQ(ask("GET /dashboard.js").first, 200);  // holds no secret
  further_ = "Authorization: Bearer " + query.substr(5) + "\r\n";
  EXPECT_EQ(ask("GET /state").first, 200);
}

TEST_F(Dashboard, SendsWhatIsNewToTwoPages) {
  serve();
  monitor_->begin(0, 10);
  monitor_->add("loss", 1, 4.5);
  test::Client one(server_->port()), two(server_->port());
  const auto wait_for = [](test::Client& client, const std::string& part) {
    while (client.buffer().find(part) == std::string::npos)
      if (!client.receive(10)) return false;
    return true;
  };
  one.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_for(one, "[1,4.5]")) << one.buffer();
  monitor_->add("loss", 2, 2.25);
  ASSERT_TRUE(wait_for(one, "[2,2.25]")) << one.buffer();
  EXPECT_EQ(one.buffer().find("[1,4.5]", one.buffer().find("event: update")), std::string::npos);
  two.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_for(two, "[2,2.25]")) << two.buffer();  // which came late, and gets all
  EXPECT_NE(two.buffer().find("[1,4.5]"), std::string::npos);
  monitor_->end(Phase::kFinished);
  server_.reset();
  for (test::Client* client : {&one, &two}) {
    EXPECT_TRUE(wait_for(*client, "event: end")) << client->buffer();
    EXPECT_NE(client->buffer().find("\"finished\""), std::string::npos);
  }
}

TEST_F(Dashboard, ComparesRunsBesideThisOne) {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << text;
  };
  const std::string state =
      R"({"epoch": 1.0, "global_step": 2, "max_steps": 2, "log_history": [{"loss": 0.75, "step": 2, "epoch": 1.0}]})";
  write("done/trainer_state.json", state);
  write("going/checkpoint-2/trainer_state.json", state);
  write("broken/trainer_state.json", "{\"log_history\": [");
  write("mine/trainer_state.json", state);
  write("other/file.txt", "");
  serve({.output_dir = (folder.path() / "mine").string()});
  const auto [status, body] = ask("GET /runs");
  ASSERT_EQ(status, 200);
  const Json runs = parse_json(body, "runs");
  ASSERT_EQ(runs.size(), 3u) << body;
  EXPECT_EQ(runs[0].at("name"), "broken");
  EXPECT_EQ(runs[1].at("name"), "done");
  EXPECT_EQ(runs[2].at("name"), "going");
  EXPECT_EQ(ask("GET /runs/0").first, 404);
  for (const char* path : {"GET /runs/1", "GET /runs/2"})
    EXPECT_EQ(parse_json(ask(path).second, path).at("series").at("loss"), Json({{2, 0.75}}));
  for (const char* path : {"GET /runs/3", "GET /runs/", "GET /runs/-1", "GET /runs/..%2f", "GET /runs/99999999999"})
    EXPECT_EQ(ask(path).first, 404) << path;

  serve({.runs = {(folder.path() / "done").string()}, .output_dir = (folder.path() / "mine").string()});
  EXPECT_EQ(parse_json(ask("GET /runs").second, "runs").size(), 1u);
}

TEST_F(Dashboard, APortThatIsTakenIsAnError) {
  serve();
  EXPECT_THROW(DashboardServer({.port = server_->port()}, monitor_, control_), Error);
}

}  // namespace
}  // namespace transom::dashboard
