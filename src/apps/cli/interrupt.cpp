// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <iterator>

#include "transom/distributed.h"

namespace transom {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile sig_atomic_t received = 0;
volatile sig_atomic_t speaks = 0;

void receive(int signal) {
  received = signal;
  for (const int each : kSignals) ::signal(each, SIG_DFL);  // the second one ends the process
  constexpr char kText[] = "\ntransom: ending after this step, with a checkpoint; a second signal ends at once\n";
  if (speaks && ::write(STDERR_FILENO, kText, sizeof kText - 1) < 0) return;
}

class InterruptOnSignals : public TrainerCallback {
 public:
  ~InterruptOnSignals() override { restore(); }
  void on_train_begin(const TrainingArguments&, const TrainerState&) override {
    if (installed_) return;
    received = 0;
    speaks = process_rank() == 0;
    struct sigaction action {};
    action.sa_handler = receive;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);  // nohup stays nohup
    }
    installed_ = true;
  }
  void on_train_end(const TrainingArguments&, const TrainerState&) override { restore(); }
  bool should_interrupt() override { return received != 0; }

 private:
  void restore() {
    if (!installed_) return;
    for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    installed_ = false;
  }
  struct sigaction before_[std::size(kSignals)]{};
  bool installed_ = false;
};

}  // namespace

std::shared_ptr<TrainerCallback> interrupt_on_signals() { return std::make_shared<InterruptOnSignals>(); }
int interrupting_signal() { return received; }

std::string shell_words(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace transom
