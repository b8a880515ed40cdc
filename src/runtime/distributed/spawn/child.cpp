// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace transom {
namespace {

constexpr size_t kLongestLine = 1 << 16;  // what is longer is taken in pieces

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

}  // namespace

Child::Child(ChildOptions options) : options_(std::move(options)) {
  std::vector<std::string> environment = environment_with(options_.variables);
  const std::vector<char*> words = pointers_to(options_.words), variables = pointers_to(environment);
  int out[2] = {-1, -1}, error[2] = {-1, -1}, failed[2] = {-1, -1};
  const bool piped = ::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(error, O_CLOEXEC) == 0 && ::pipe2(failed, O_CLOEXEC) == 0;
  const pid_t parent = ::getpid();
  process_ = piped ? ::fork() : -1;
  if (process_ == 0) {
    // Of its own group: what comes from the terminal is passed on by this process.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const bool has_parent = ::getppid() == parent;
    if (!options_.reads_input) {
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, 0);
      ::close(nothing);
    }
    ::dup2(out[1], 1);
    ::dup2(error[1], 2);
    if (has_parent) ::execvpe(words[0], words.data(), variables.data());
    const int reason = errno;
    [[maybe_unused]] const ssize_t written = ::write(failed[1], &reason, sizeof reason);
    ::_exit(127);
  }
  int reason = process_ < 0 ? errno : 0;
  for (const int file : {out[1], error[1], failed[1]})
    if (file >= 0) ::close(file);
  if (process_ > 0) {
    ssize_t got;
    do got = ::read(failed[0], &reason, sizeof reason);  // nothing where it has been replaced by the program
    while (got < 0 && errno == EINTR);
    if (got > 0) ::waitpid(process_, nullptr, 0);
  }
  if (failed[0] >= 0) ::close(failed[0]);
  if (reason != 0) {
    process_ = 0;
    for (const int file : {out[0], error[0]})
      if (file >= 0) ::close(file);
    fail("{}: {} cannot be started: {}", options_.label, quoted(options_.words[0]), std::strerror(reason));
  }
  pipes_[0].file = out[0];
  pipes_[1].file = error[0];
  for (const Pipe& pipe : pipes_) ::fcntl(pipe.file, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  if (process_ > 0) {
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  for (const Pipe& pipe : pipes_)
    if (pipe.file >= 0) ::close(pipe.file);
}

void Child::read(size_t number, const TakeLine& take) {
  Pipe& pipe = pipes_[number];
  char piece[16384];
  while (pipe.file >= 0) {
    const ssize_t got = ::read(pipe.file, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      ::close(std::exchange(pipe.file, -1));
      return;
    }
    pipe.text.append(piece, static_cast<size_t>(got));
    size_t begin = 0;
    // A bar that is drawn anew ends with a return.
    for (size_t end; (end = pipe.text.find_first_of("\n\r", begin)) != pipe.text.npos; begin = end + 1)
      if (end > begin || pipe.text[end] == '\n')
        take(options_, number == 1, std::string_view(pipe.text).substr(begin, end - begin));
    pipe.text.erase(0, begin);
    if (pipe.text.size() < kLongestLine) continue;
    take(options_, number == 1, pipe.text);
    pipe.text.clear();
  }
}

void Child::read(const TakeLine& take) {
  for (const size_t number : {0, 1}) read(number, take);
}

void Child::finish(const TakeLine& take) {
  read(take);
  for (const size_t number : {0, 1}) {
    Pipe& pipe = pipes_[number];
    if (!pipe.text.empty()) take(options_, number == 1, std::exchange(pipe.text, ""));
    if (pipe.file >= 0) ::close(std::exchange(pipe.file, -1));
  }
}

bool Child::is_running() {
  if (process_ <= 0) return false;
  int state = 0;
  if (::waitpid(process_, &state, WNOHANG) != process_) return true;
  // What it started may live on without it.
  ::kill(-std::exchange(process_, 0), SIGTERM);
  status_ = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  return false;
}

void Child::signal(int number) {
  if (process_ <= 0) return;
  if (::kill(-process_, number) != 0) ::kill(process_, number);
}

}  // namespace transom
