// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/probe.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/processes/process.h"
#include "base/terminal/log.h"
#include "runtime/device/passed_trials.h"
#include "runtime/device/plugin.h"

namespace transom {
namespace {

// A driver may take its time to start; one that takes longer than this hangs.
int patience_in_milliseconds() {
  const char* seconds = std::getenv("TRANSOM_PLUGIN_TIMEOUT");
  const int value = seconds ? std::atoi(seconds) : 0;
  return (value > 0 && value < 86400 ? value : 120) * 1000;
}

// The program beside the plugins, see probe_program.cpp. Loading in a fork of this process could hang: its other
// threads may hold locks of the loader or of malloc, and nobody would release them in the child.
fs::path probe_program() { return own_plugin_directory() / "probe-plugin"; }

// How it ended that did not write its byte.
std::string end_of_trial(const std::optional<int>& status) {
  if (!status)  // a host that ignores SIGCHLD, or waits for all children, has taken the status
    return "crashed or ended the process while it was loaded; build it anew, or take it out of the directory";
  if (*status < 0)
    return fmt::format("crashed while it was loaded (signal {}, {}); build it anew, or take it out of the directory",
                       -*status, strsignal(-*status));
  return fmt::format("ended the process while it was loaded (exit status {})", *status);
}

// Why the file must not be loaded; empty if it may. Nothing where no trial could be made: then it is loaded all the
// same.
std::optional<std::string> try_in_child(const fs::path& file) {
  const fs::path program = probe_program();
  std::error_code ignored;
  if (!fs::exists(program, ignored)) {
    log(LogLevel::kDebug, fmt::format("{}: loaded without a trial: there is no {}", file.string(), program.string()));
    return std::nullopt;
  }
  PipeEnds ends = make_pipe();
  if (ends.read < 0) return std::nullopt;  // no child, no trial
  std::optional<Process> child;
  try {
    child.emplace(ProcessOptions{.label = file.string(),
                                 .words = {program.string(), file.string(), std::to_string(ends.write)},
                                 .variables = {},
                                 .output = ProcessStream::kNothing,
                                 .error = ProcessStream::kNothing,
                                 .kept = ends.write});
  } catch (const Error&) {
    close(ends.read);
    close(ends.write);
    return std::nullopt;
  }
  close(ends.write);
  // The child writes a byte when all is well; its end closes when it is gone.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_in_milliseconds());
  bool gone = false;
  while (!gone) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    pollfd end{ends.read, POLLIN, 0};
    const int ready = poll(&end, 1, static_cast<int>(left.count()));
    gone = ready > 0 || (ready < 0 && errno != EINTR);
  }
  char word = 0;
  ssize_t read_bytes = 0;
  if (gone)
    while ((read_bytes = read(ends.read, &word, 1)) < 0 && errno == EINTR) {
    }
  close(ends.read);
  if (!gone || !child->wait_until(deadline))
    return fmt::format("did not answer within {} s while it was loaded (TRANSOM_PLUGIN_TIMEOUT sets the seconds)",
                       patience_in_milliseconds() / 1000);
  return read_bytes == 1 ? "" : end_of_trial(child->status());
}

}  // namespace

void probe_plugin(const fs::path& file) {
  // One trial a file in this process; who asks for another file does not wait.
  struct Trial {
    std::once_flag once;
    std::string fault;
  };
  static std::mutex mutex;
  static std::map<fs::path, std::shared_ptr<Trial>> trials;
  const std::shared_ptr<Trial> trial = [&] {
    const std::lock_guard lock(mutex);
    std::shared_ptr<Trial>& found = trials[file];
    if (!found) found = std::make_shared<Trial>();
    return found;
  }();
  std::call_once(trial->once, [&] {
    const PassedTrials passed(file);
    if (passed.contain_this()) return;
    const std::optional<std::string> fault = try_in_child(file);
    trial->fault = fault.value_or("");
    if (fault && fault->empty()) passed.add();  // what was not tried has not passed
  });
  if (!trial->fault.empty()) fail(ErrorKind::kDevice, "{}: the plugin {}", file.string(), trial->fault);
}

}  // namespace transom
