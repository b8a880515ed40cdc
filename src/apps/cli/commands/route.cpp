// SPDX-License-Identifier: Apache-2.0
// transom route: several servers behind one address, until SIGTERM or SIGINT.
#include <unistd.h>

#include "apps/cli/command.h"
#include "apps/cli/ending_signals.h"
#include "apps/route/route_service.h"
#include "base/error.h"
#include "base/terminal/line_writer.h"

namespace transom {
namespace {

struct RouteArguments {
  std::vector<std::string> servers;
  std::string host = "127.0.0.1", api_key;
  int64_t port = 8080;
  double look_every = 2, shutdown_timeout = 30;
};

int run_route(const RouteArguments& o) {
  const EndingSignals signals;
  if (!(o.look_every > 0 && o.look_every <= 3600))
    fail(ErrorKind::kUsage, "--health_interval: expected seconds from 0 to 3600, found {}", o.look_every);
  route::RouteOptions options{.servers = o.servers, .api_key = o.api_key};
  options.http.host = o.host;
  options.http.port = listening_port(o.port);
  options.look_every = std::chrono::milliseconds(static_cast<int64_t>(1000 * o.look_every) + 1);
  route::RouteService service(options);
  service.start();
  LineWriter says(STDERR_FILENO);
  says.write(fmt::format("transom: routing http://{}:{} to {} servers, of which {} answer", o.host, service.port(),
                         o.servers.size(), service.answering()));
  size_t answering = service.answering();
  while (!signals.come_within(std::chrono::seconds(1)))
    if (const size_t now = service.answering(); now != answering)
      says.write(fmt::format("transom: {} of {} servers answer", answering = now, o.servers.size()));
  service.drain();
  signals.wait_until_idle(o.shutdown_timeout, [&] { return service.is_idle(); });
  return 0;
}

}  // namespace

Command route_command() {
  static RouteArguments o;
  Command command{.name = "route",
                  .help = "Put several servers behind one address; texts that begin alike go to the same one",
                  .examples = "  transom route http://10.0.0.1:8000 http://10.0.0.2:8000 --host 0.0.0.0 --port 8080\n"};
  command.options = {
      {"URL", &o.servers, "where transom serve, or another server with /health and /v1/models, listens", true},
      {"--host", &o.host, "address to listen on; 0.0.0.0 for all"},
      {"--port", &o.port, "port to listen on; 0: any that is free"},
      {.name = "--api_key", .value = &o.api_key, .help = "key with which the router asks servers for their models"},
      {"--health_interval", &o.look_every, "seconds between two looks at the servers"},
      {"--shutdown_timeout", &o.shutdown_timeout, "seconds that running requests get to finish after SIGTERM"}};
  command.run = [] { return run_route(o); };
  return command;
}

}  // namespace transom
