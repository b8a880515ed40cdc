// SPDX-License-Identifier: Apache-2.0
#include "base/processes/run_process.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/threads/interrupt.h"

namespace transom {
namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

constexpr milliseconds kGlance{50};  // between two looks at whether it has ended, where it keeps its pipes open

constexpr int kPieces = 128;  // more than any pipe holds; who writes on and on is looked at in between

// Takes what is there, without waiting; false at the end.
template <typename Take>
bool take_from(int file, const Take& take) {
  char piece[16384];
  for (int pieces = 0; pieces < kPieces;) {
    const ssize_t got = ::read(file, piece, sizeof piece);
    if (got > 0) take(std::string_view(piece, static_cast<size_t>(got))), ++pieces;
    else if (got == 0) return false;
    else if (errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

std::string text_of(milliseconds time) {
  return time.count() % 60000 == 0 ? fmt::format("{} minutes", time.count() / 60000)
                                   : fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

class Conversation {
 public:
  Conversation(const ProcessOptions& options, std::string_view input, const ProcessLimits& limits)
      : options_(options), limits_(limits), process_(options), input_(input) {}

  ProcessOutcome run() {
    const auto deadline = steady_clock::now() + limits_.longest;
    bool running = true;
    while (running) {
      write();
      const bool speaks = process_.output() >= 0 || process_.error() >= 0;
      if (speaks) {
        running = process_.is_running();
        if (running) wait(std::min(deadline, steady_clock::now() + kGlance));
        read();
      } else {
        running = !process_.wait_until(std::min(deadline, steady_clock::now() + kGlance));
      }
      if (running && steady_clock::now() >= deadline)
        fail("{}: {} has not ended after {}", options_.label, quoted(options_.words[0]), text_of(limits_.longest));
      check_interrupted();
    }
    if (!process_.status())
      fail("{}: {}: how it ended is not known, since this process ignores SIGCHLD", options_.label,
           quoted(options_.words[0]));
    outcome_.status = *process_.status();
    return std::move(outcome_);
  }

 private:
  void write() {
    while (process_.input() >= 0) {
      if (written_ == input_.size()) return process_.close_input();
      const ssize_t count = ::write(process_.input(), input_.data() + written_, input_.size() - written_);
      if (count >= 0) written_ += static_cast<size_t>(count);
      else if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      else if (errno != EINTR) return process_.close_input();
    }
  }

  void wait(steady_clock::time_point until) {
    pollfd files[3] = {{process_.output(), POLLIN, 0}, {process_.error(), POLLIN, 0}, {process_.input(), POLLOUT, 0}};
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    ::poll(files, 3, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  }

  void read() {
    const auto take = [&](std::string_view piece) {
      if (outcome_.output.size() + piece.size() > limits_.most_output)
        fail("{}: {} wrote more than the {} bytes that are taken", options_.label, quoted(options_.words[0]),
             limits_.most_output);
      outcome_.output += piece;
    };
    const auto take_error = [&](std::string_view piece) {
      outcome_.errors += piece.substr(0, limits_.most_errors - outcome_.errors.size());
    };
    if (process_.output() >= 0 && !take_from(process_.output(), take)) process_.close_output();
    if (process_.error() >= 0 && !take_from(process_.error(), take_error)) process_.close_error();
  }

  const ProcessOptions& options_;
  const ProcessLimits& limits_;
  Process process_;
  std::string_view input_;
  size_t written_ = 0;
  ProcessOutcome outcome_;
};

}  // namespace

ProcessOutcome run_process(std::string label, std::vector<std::string> words, std::string_view input,
                           const ProcessLimits& limits) {
  const ProcessOptions options{.label = std::move(label),
                               .words = std::move(words),
                               .variables = {},
                               .input = input.empty() ? ProcessStream::kNothing : ProcessStream::kPipe};
  return Conversation(options, input, limits).run();
}

std::string text_of_status(int status) {
  return status < 0 ? fmt::format("signal {}", -status) : fmt::format("status {}", status);
}

}  // namespace transom
