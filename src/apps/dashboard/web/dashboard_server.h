// SPDX-License-Identifier: Apache-2.0
// The dashboard as a page: `/` with its script and style, `/events` (server-sent events of what is new), `/state`,
// `/runs` and `/runs/N` (other runs), and what its buttons post: `/pause`, `/resume`, `/save`, `/stop`, `/profile`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/dashboard/monitor/run_control.h"
#include "apps/dashboard/monitor/run_monitor.h"

namespace transom::dashboard {

struct DashboardOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;              // 0: one that is free
  std::vector<std::string> runs;  // directories of runs to compare; empty: those beside output_dir
  std::string output_dir;
};

// Listening for this machine alone, it answers requests that name this machine, and posts that a page of another site
// cannot make. Listening for others, it makes a key, which every request has to bring (`?key=`, or the header
// Authorization: Bearer KEY). Nothing is sent anywhere but in answers.
class DashboardServer {
 public:
  // Throws Error if the address cannot be had.
  DashboardServer(DashboardOptions options, std::shared_ptr<const RunMonitor> monitor,
                  std::shared_ptr<RunControl> control);
  // Sends pages the last state and closes them.
  ~DashboardServer();
  uint16_t port() const;
  // Where the page is, with the key if there is one.
  std::string address() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace transom::dashboard
