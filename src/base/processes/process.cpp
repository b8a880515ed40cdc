// SPDX-License-Identifier: Apache-2.0
#include "base/processes/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace transom {
namespace {

constexpr int kFirstOfOurs = 3;  // below it are the standard streams

void close_end(int& file) {
  if (file >= 0) ::close(std::exchange(file, -1));
}

void close_ends(PipeEnds& pipe) {
  close_end(pipe.read);
  close_end(pipe.write);
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (char** each = environ; *each; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::none_of(variables.begin(), variables.end(), [&](const auto& item) { return item.first == name; }))
      all.emplace_back(text);
  }
  for (const auto& [name, value] : variables)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

constexpr int kNobody = -1, kStays = -2;

// What the child needs, made before it is: between fork and exec only what is safe in a handler of signals may be
// called, since other threads of this process may have held any lock.
struct Prepared {
  char* const* words;
  char* const* variables;
  int streams[3];  // the descriptors that become them; kNobody: nothing is there, kStays: that of this process
  int kept, failed;
  pid_t parent;
};

void become_stream(int file, int stream, int mode) {
  if (file == kStays) return;
  const int from = file >= 0 ? file : ::open("/dev/null", mode);
  if (from == stream) return;  // it was closed, and is /dev/null now
  ::dup2(from, stream);
  if (file < 0) ::close(from);
}

[[noreturn]] void become_program(const Prepared& prepared) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // What hosts ignore, as Python does SIGPIPE, is not what programs expect. SIGHUP stays: nohup means them too.
  for (const int number : {SIGPIPE, SIGCHLD}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    become_stream(prepared.streams[stream], stream, stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  if (prepared.kept >= 0) ::fcntl(prepared.kept, F_SETFD, 0);
  if (::getppid() == prepared.parent) ::execvpe(prepared.words[0], prepared.words, prepared.variables);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(prepared.failed, &reason, sizeof reason);
  ::_exit(127);
}

}  // namespace

PipeEnds make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  for (int& end : ends) {
    if (end >= kFirstOfOurs) continue;
    const int higher = ::fcntl(end, F_DUPFD_CLOEXEC, kFirstOfOurs);
    ::close(end);
    end = higher;
  }
  PipeEnds pipe{ends[0], ends[1]};
  if (pipe.read < 0 || pipe.write < 0) close_ends(pipe);
  return pipe;
}

Process::Process(const ProcessOptions& options) {
  std::vector<std::string> texts = options.words, environment = environment_with(options.variables);
  const std::vector<char*> words = pointers_to(texts), variables = pointers_to(environment);
  PipeEnds output, error, failed = make_pipe();
  bool made = failed.read >= 0;
  const auto pipe_for = [&](ProcessStream stream, PipeEnds& pipe) {
    if (stream != ProcessStream::kPipe || !made) return;
    pipe = make_pipe();
    made = pipe.read >= 0;
  };
  pipe_for(options.input, input_);
  pipe_for(options.output, output);
  pipe_for(options.error, error);
  const auto theirs = [](ProcessStream stream, int end) {
    return stream == ProcessStream::kOurs ? kStays : stream == ProcessStream::kPipe ? end : kNobody;
  };
  const Prepared prepared{.words = words.data(),
                          .variables = variables.data(),
                          .streams = {theirs(options.input, input_.read), theirs(options.output, output.write),
                                      theirs(options.error, error.write)},
                          .kept = options.kept,
                          .failed = failed.write,
                          .parent = ::getpid()};
  int reason = made ? 0 : errno;
  if (made) {
    id_ = ::fork();
    if (id_ == 0) become_program(prepared);
    if (id_ < 0) reason = errno;
  }
  close_end(output.write);
  close_end(error.write);
  close_end(failed.write);
  if (id_ > 0) {
    ssize_t got;
    do got = ::read(failed.read, &reason, sizeof reason);  // nothing where it has been replaced by the program
    while (got < 0 && errno == EINTR);
    if (got > 0) ::waitpid(id_, nullptr, 0);
  }
  close_end(failed.read);
  output_ = output.read;
  error_ = error.read;
  if (reason != 0) {
    id_ = 0;
    close_ends(input_);
    close_end(output_);
    close_end(error_);
    fail("{}: {} cannot be started: {}", options.label, quoted(options.words[0]), std::strerror(reason));
  }
  // The reading end of its input stays open here: what is written to a program that has ended makes no SIGPIPE.
  for (const int file : {input_.write, output_, error_})
    if (file >= 0) ::fcntl(file, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  if (id_ > 0) {
    signal(SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close_ends(input_);
  close_end(output_);
  close_end(error_);
}

void Process::close_input() { close_ends(input_); }
void Process::close_output() { close_end(output_); }
void Process::close_error() { close_end(error_); }

bool Process::is_running() {
  if (id_ <= 0) return false;
  int state = 0;
  const pid_t ended = ::waitpid(id_, &state, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
  if (ended == id_) status_ = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  // What it started may live on without it.
  ::kill(-std::exchange(id_, 0), SIGTERM);
  return false;
}

bool Process::wait_until(std::chrono::steady_clock::time_point deadline) {
  for (std::chrono::microseconds pause{50}; is_running();
       pause = std::min(pause * 2, std::chrono::microseconds{5000})) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

void Process::signal(int number) {
  if (id_ <= 0) return;
  if (::kill(-id_, number) != 0) ::kill(id_, number);
}

std::string find_in_path(const std::string& name) {
  const auto is_program = [](const std::string& file) {
    struct stat state {};
    return ::stat(file.c_str(), &state) == 0 && S_ISREG(state.st_mode) && ::access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != name.npos) return is_program(name) ? name : "";
  const char* const path = std::getenv("PATH");
  std::string_view rest = path ? path : "/bin:/usr/bin";
  while (true) {
    const size_t end = rest.find(':');
    const std::string folder(rest.substr(0, end));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (!name.empty() && is_program(file)) return file;
    if (end == rest.npos) return "";
    rest.remove_prefix(end + 1);
  }
}

std::string own_program() {
  std::string name(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", name.data(), name.size());
  if (length <= 0 || length == static_cast<ssize_t>(name.size()))
    fail("/proc/self/exe: expected a link to this program's file: {}", length < 0 ? std::strerror(errno) : "no name");
  return name.substr(0, static_cast<size_t>(length));
}

}  // namespace transom
