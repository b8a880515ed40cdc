// SPDX-License-Identifier: Apache-2.0
#include "device/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "transom/device_plugin.h"

namespace transom {
namespace {

// A driver may take its time to start; one that takes longer than this hangs.
int patience_in_milliseconds() {
  const char* seconds = std::getenv("TRANSOM_PLUGIN_TIMEOUT");
  const int value = seconds ? std::atoi(seconds) : 0;
  return (value > 0 && value < 86400 ? value : 120) * 1000;
}

// The child has none of the parent's threads.
void one_after_the_other(size_t count, void* context, transom_parallel_body body) {
  for (size_t i = 0; i < count; ++i) body(context, i);
}

// Nothing may unwind from here into the code that the parent runs.
[[noreturn]] void load_in_child(const char* file) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) std::signal(signal, SIG_DFL);
  if (const int nowhere = open("/dev/null", O_RDWR); nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const auto plugin_open =
      library ? reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open")) : nullptr;
  if (plugin_open) {
    static const transom_host host = {.struct_size = sizeof(transom_host),
                                      .major = TRANSOM_PLUGIN_MAJOR,
                                      .minor = TRANSOM_PLUGIN_MINOR,
                                      .log = [](int32_t, const char*) {},
                                      .threads = 1,
                                      .parallel = one_after_the_other,
                                      .release = [](const void*, size_t) {}};
    transom_plugin table{};
    table.struct_size = sizeof table;
    transom_error error{};
    uint32_t count = 0;
    if (plugin_open(&host, &table, &error) == TRANSOM_OK && table.major == TRANSOM_PLUGIN_MAJOR && table.device_count)
      table.device_count(&count, &error);
  }
  _exit(0);
}

// Why the file must not be loaded; empty if it may.
std::string try_in_child(const fs::path& file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";  // no child, no trial
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return "";
  }
  if (child == 0) load_in_child(file.c_str());
  close(ends[1]);
  // The child's end closes when it is gone.
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
  close(ends[0]);
  if (!gone) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!gone)
    return fmt::format("did not answer within {} s while it was loaded (TRANSOM_PLUGIN_TIMEOUT sets the seconds)",
                       patience_in_milliseconds() / 1000);
  if (WIFSIGNALED(status))
    return fmt::format("crashed while it was loaded (signal {}, {}); build it anew, or take it out of the directory",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return fmt::format("ended the process while it was loaded (exit status {})", WEXITSTATUS(status));
  return "";
}

}  // namespace

void probe_plugin(const fs::path& file) {
  static std::mutex mutex;
  static std::map<fs::path, std::string> tried;
  const std::lock_guard lock(mutex);
  auto found = tried.find(file);
  if (found == tried.end()) found = tried.emplace(file, try_in_child(file)).first;
  if (!found->second.empty()) fail(ErrorKind::kDevice, "{}: the plugin {}", file.string(), found->second);
}

}  // namespace transom
