// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"

namespace transom {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::string_view kError = "transom: error: ";
constexpr int kSupervisorGlance = 50;  // milliseconds between two looks at which processes have ended

class Supervision {
 public:
  Supervision(const std::vector<ChildOptions>& children, const SuperviseOptions& options) : options_(options) {
    for (const ChildOptions& child : children) children_.push_back(std::make_unique<Child>(child));
    running_.assign(children_.size(), true);
    errors_.resize(children_.size());
  }

  Supervised run() {
    while (true) {
      wait_for_lines();
      for (const auto& child : children_) child->read(taker());
      const bool any = look_who_ended();
      if (!any) break;
      pass_on_signal();
      end_others();
    }
    if (end_.status != 0) end_.error = errors_[end_.failed];
    return end_;
  }

 private:
  TakeLine taker() {
    return [this](const ChildOptions& child, bool is_error, std::string_view line) {
      if (is_error && !line.empty())
        for (size_t i = 0; i < children_.size(); ++i)
          if (&children_[i]->options() == &child) {
            // Its last words, but rather those of its own error.
            if (!errors_[i].starts_with(kError) || line.starts_with(kError)) errors_[i] = line;
          }
      options_.take(child, is_error, line);
    };
  }

  void wait_for_lines() {
    std::vector<pollfd> files;
    for (const auto& child : children_)
      for (const int file : {child->out(), child->error()})
        if (file >= 0) files.push_back({file, POLLIN, 0});
    ::poll(files.data(), files.size(), kSupervisorGlance);
  }

  bool look_who_ended() {
    bool any = false;
    for (size_t i = 0; i < children_.size(); ++i) {
      if (!running_[i]) continue;
      running_[i] = children_[i]->is_running();
      any |= running_[i];
      if (running_[i]) continue;
      children_[i]->finish(taker());
      if (children_[i]->status() != 0) note_failure(i);
    }
    return any;
  }

  // The first one, but for another that ended by itself and gives a reason: who is killed says nothing, but those who
  // learn of it from the others may end before it is seen here.
  void note_failure(size_t i) {
    const bool said = errors_[i].starts_with(kError);
    const bool better =
        !first_failure_ || (!terminated_ && end_.status > 0 && (children_[i]->status() < 0 || (said && !end_said_)));
    if (!first_failure_) first_failure_ = std::chrono::steady_clock::now();
    if (!better) return;
    end_.failed = i;
    end_.status = children_[i]->status();
    end_said_ = said;
  }

  void pass_on_signal() {
    const int signal = options_.interrupt ? options_.interrupt() : 0;
    if (signal == 0) return;
    end_.signal = signal;
    for (const auto& child : children_) child->signal(signal);
  }

  void end_others() {
    if (!first_failure_) return;
    const auto since = std::chrono::steady_clock::now() - *first_failure_;
    const bool term = !terminated_ && since > options_.until_terminated, kill = since > options_.until_killed;
    if (!term && !kill) return;
    terminated_ = true;
    for (const auto& child : children_) child->signal(kill ? SIGKILL : SIGTERM);
  }

  const SuperviseOptions& options_;
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<bool> running_;
  std::vector<std::string> errors_;
  std::optional<Time> first_failure_;
  bool terminated_ = false, end_said_ = false;
  Supervised end_;
};

}  // namespace

Supervised supervise(const std::vector<ChildOptions>& children, const SuperviseOptions& options) {
  return Supervision(children, options).run();
}

std::string text_of_failure(const Supervised& end, const std::vector<ChildOptions>& children) {
  const std::string& label = children[end.failed].label;
  if (end.status < 0)
    return fmt::format("{} was ended by signal {} ({})", label, -end.status, ::strsignal(-end.status));
  std::string_view error = end.error;
  if (error.starts_with(kError)) error.remove_prefix(kError.size());
  return fmt::format("{} ended with status {}{}{}", label, end.status, error.empty() ? "" : ": ", error);
}

}  // namespace transom
