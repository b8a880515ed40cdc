// SPDX-License-Identifier: Apache-2.0
// transom health: whether a server answers, for containers, whose images have no other program.
#include "apps/cli/command.h"
#include "base/error.h"
#include "tools/client/http_client.h"

namespace transom {
namespace {

class HealthListener : public client::ClientListener {
 public:
  void on_head(int status) override { status_ = status; }
  void on_body(std::string_view) override {}
  void on_end(const std::string& error) override { error_ = error; }
  int status() const { return status_; }
  const std::string& error() const { return error_; }

 private:
  int status_ = 0;
  std::string error_;
};

int check_health(const std::string& url, double timeout) {
  if (!(timeout > 0 && timeout <= 3600))
    fail(ErrorKind::kUsage, "--timeout: expected seconds from 0 to 3600, found {}", timeout);
  const std::chrono::milliseconds limit(static_cast<int64_t>(1000 * timeout) + 1);
  client::HttpClient http(client::parse_http_url(url, "URL"), {.connect_timeout = limit, .request_timeout = limit});
  const auto listener = std::make_shared<HealthListener>();
  http.send({.path = "/health"}, listener);
  http.run();
  if (!listener->error().empty()) fail("{}/health: {}", http.server().text(), listener->error());
  if (listener->status() != 200)
    fail("{}/health: expected status 200, found {}", http.server().text(), listener->status());
  return 0;
}

}  // namespace

Command health_command() {
  static std::string url = "http://127.0.0.1:8000";
  static double timeout = 5;
  Command command{.name = "health",
                  .help = "Ask a server whether it answers: exit status 0 if it does, else 1",
                  .examples = "  transom health\n  transom health http://127.0.0.1:8080 --timeout 2"};
  command.options = {{"URL", &url, "where transom serve listens"},
                     {"--timeout", &timeout, "seconds to wait for the answer"}};
  command.run = [] { return check_health(url, timeout); };
  return command;
}

}  // namespace transom
