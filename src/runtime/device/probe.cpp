// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
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

// The program beside the plugins, see probe_program.cpp. A fork of this process could hang: its other threads may hold
// locks of the loader or of malloc, and nobody would release them in the child.
fs::path probe_program() { return own_plugin_directory() / "probe-plugin"; }

pid_t start(const fs::path& program, const fs::path& file, int open_end) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, open_end, open_end);  // onto itself: it stays open in the child
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string program_name = program.string(), file_name = file.string(), end_name = std::to_string(open_end);
  char* words[] = {program_name.data(), file_name.data(), end_name.data(), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, program_name.c_str(), &actions, &attributes, words, environ) != 0) child = -1;
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return child;
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
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;  // no child, no trial
  const pid_t child = start(program, file, ends[1]);
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return std::nullopt;
  }
  close(ends[1]);
  // The child writes a byte when all is well; its end closes when it is gone.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_in_milliseconds());
  bool gone = false;
  while (!gone) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    pollfd end{ends[0], POLLIN, 0};
    const int ready = poll(&end, 1, static_cast<int>(left.count()));
    gone = ready > 0 || (ready < 0 && errno != EINTR);
  }
  char word = 0;
  ssize_t read_bytes = 0;
  if (gone)
    while ((read_bytes = read(ends[0], &word, 1)) < 0 && errno == EINTR) {
    }
  close(ends[0]);
  if (!gone) kill(child, SIGKILL);
  int status = 0;
  pid_t waited = -1;
  while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (!gone)
    return fmt::format("did not answer within {} s while it was loaded (TRANSOM_PLUGIN_TIMEOUT sets the seconds)",
                       patience_in_milliseconds() / 1000);
  if (read_bytes == 1) return "";
  if (waited != child)  // a host that ignores SIGCHLD, or waits for all children, has taken the status
    return "crashed or ended the process while it was loaded; build it anew, or take it out of the directory";
  if (WIFSIGNALED(status))
    return fmt::format("crashed while it was loaded (signal {}, {}); build it anew, or take it out of the directory",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended the process while it was loaded (exit status {})", WEXITSTATUS(status));
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
