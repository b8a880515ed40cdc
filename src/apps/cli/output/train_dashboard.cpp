// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/train_dashboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "apps/cli/output/log_messages.h"
#include "apps/dashboard/monitor/watch_run.h"
#include "apps/dashboard/terminal/terminal_dashboard.h"
#include "apps/dashboard/web/dashboard_server.h"
#include "base/error.h"
#include "transom/distributed.h"

namespace transom {

struct TrainDashboard::Views {
  std::shared_ptr<dashboard::RunMonitor> monitor = std::make_shared<dashboard::RunMonitor>();
  std::shared_ptr<dashboard::RunControl> control = std::make_shared<dashboard::RunControl>();
  std::optional<dashboard::DashboardServer> server;
  std::optional<dashboard::TerminalDashboard> terminal;
  std::string log_level;
  bool has_ended = false;
};

TrainDashboard::TrainDashboard(const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  if (!script.dashboard && !script.dashboard_port) {
    if (!script.dashboard_runs.empty() || script.dashboard_host != "127.0.0.1")
      fail(ErrorKind::kUsage, "--dashboard_{}: give --dashboard_port, too",
           script.dashboard_runs.empty() ? "host" : "runs");
    return;
  }
  if (script.dashboard && script.json)
    fail(ErrorKind::kUsage, "--dashboard: --json prints lines for machines; give one of them, or --dashboard_port");
  if (process_rank() > 0) return;
  views_ = std::make_unique<Views>();
  views_->log_level = arguments.training.log_level;
  views_->monitor->update([&](dashboard::RunStatus& status) {
    status.model = script.model_name_or_path;
    status.task = script.task.value_or("");
    status.output_dir = arguments.training.output_dir;
  });
  if (script.dashboard_port) {
    views_->server.emplace(dashboard::DashboardOptions{.host = script.dashboard_host,
                                                       .port = static_cast<uint16_t>(*script.dashboard_port),
                                                       .runs = script.dashboard_runs,
                                                       .output_dir = arguments.training.output_dir},
                           views_->monitor, views_->control);
    std::fprintf(stderr, "transom: dashboard at %s\n", views_->server->address().c_str());
  }
  if (script.dashboard && ::isatty(STDOUT_FILENO)) {
    // Where the screen stands, messages are lines of it.
    set_log_sink([monitor = views_->monitor, level = views_->log_level](LogLevel of_text, std::string_view text) {
      if (is_said(of_text, level)) monitor->say(std::string(text), of_text == LogLevel::kWarning);
    });
    views_->terminal.emplace(stdout, views_->monitor);
  }
}

TrainDashboard::~TrainDashboard() {
  if (!views_) return;
  if (!views_->has_ended) views_->monitor->end(dashboard::Phase::kFailed);
  if (views_->terminal) {
    views_->terminal.reset();
    print_log_messages(views_->log_level);
    // The screen has shown them as lines that went away.
    for (const dashboard::Message& message : views_->monitor->view().messages)
      if (message.warning) std::fprintf(stderr, "transom: %s\n", message.text.c_str());
  }
}

void TrainDashboard::add_to(FineTuneOptions& options) {
  if (!views_) return;
  options.callbacks.push_back(dashboard::watch_run(views_->monitor, views_->control));
  options.on_step = [monitor = views_->monitor, also = options.on_step](const StepReport& report) {
    dashboard::add_step(*monitor, report);
    if (also) also(report);
  };
}

bool TrainDashboard::draws() const { return views_ && views_->terminal; }

void TrainDashboard::finish(bool stopped) {
  if (!views_) return;
  views_->has_ended = true;
  views_->monitor->end(stopped ? dashboard::Phase::kStopped : dashboard::Phase::kFinished);
}

}  // namespace transom
