// SPDX-License-Identifier: Apache-2.0
// The page, as it is sent and as a browser shows it.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/command.h"
#include "support/folders.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::golden_model;

TEST(Page, LetsNothingElseRun) {
  if (!test::has_golden("mpnet-model")) GTEST_SKIP() << "no golden models";
  const auto server = test::start_server({.models = {golden_model("mpnet-model", "embed")}, .api_keys = {"secret"}});
  Client client(server->port());
  const Answer page = client.get("/");  // without the key: it asks for it
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  const std::string& policy = page.headers.at("content-security-policy");
  EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'sha256-")) << policy;
  for (const char* part : {"; style-src 'sha256-", "; connect-src 'self'", "; base-uri 'none'", "; form-action 'none'",
                           "; frame-ancestors 'none'"})
    EXPECT_NE(policy.find(part), policy.npos) << part;
  EXPECT_EQ(policy.find("unsafe"), policy.npos);
  // Nothing comes from elsewhere, and nothing of the server is told.
  for (const char* part : {"http://", "https://", "src=", "style=", "onclick"})
    EXPECT_EQ(page.body.find(part), page.body.npos) << part;
  EXPECT_EQ(client.get("/v1/models").status, 401);
  Client other(server->port());
  other.send_request("HEAD", "/");
  EXPECT_EQ(other.read_answer(true).status, 200);
}

TEST(Page, ShowsMarkdown) {
  if (test::run_command("node --version").status != 0) GTEST_SKIP() << "no node to run the script";
  const std::string root = test::source_folder();
  const test::CommandOutcome outcome = test::run_command("node " + root + "/tests/apps/serve/page_markdown.js " + root +
                                                         "/src/apps/serve/page/markdown.js");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Page, WorksInABrowser) {
  for (const char* name : {"llama-lm", "mpnet-model", "bert-sequence-classification"})
    if (!test::has_golden(name)) GTEST_SKIP() << "no golden model " << name;
  std::string browser;
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (browser.empty() && std::filesystem::exists(path)) browser = path;
  if (browser.empty() || test::run_command("python3 --version").status != 0)
    GTEST_SKIP() << "no browser, or no Python to drive it";
  const auto server =
      test::start_server({.models = {golden_model("llama-lm", "chat"), golden_model("mpnet-model", "embed"),
                                     golden_model("bert-sequence-classification", "classify")}});
  const test::CommandOutcome outcome =
      test::run_command(test::source_folder() + "/tests/apps/serve/page_browser.py " + browser +
                        " http://127.0.0.1:" + std::to_string(server->port()) + "/");
  if (outcome.status == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

}  // namespace
}  // namespace transom
