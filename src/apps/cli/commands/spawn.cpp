// SPDX-License-Identifier: Apache-2.0
// transom spawn: the processes of a run on this machine and others.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "apps/cli/command.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/spawn/spawn_arguments.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/files/paths.h"
#include "base/processes/process.h"
#include "base/terminal/log.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/distributed/environment.h"
#include "runtime/distributed/sockets.h"
#include "runtime/distributed/spawn/supervisor.h"

extern char** environ;

namespace transom {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// ---- signals, which belong to the processes

volatile sig_atomic_t spawn_signal = 0;

class PassSignalsOn {
 public:
  PassSignalsOn() {
    struct sigaction action {};
    action.sa_handler = [](int number) { spawn_signal = number; };
    for (size_t i = 0; i < 2; ++i) {
      ::sigaction(kPassed[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kPassed[i], &action, nullptr);
    }
  }
  ~PassSignalsOn() {
    for (size_t i = 0; i < 2; ++i) ::sigaction(kPassed[i], &before_[i], nullptr);
  }
  // The last one since it was asked for; 0: none.
  static int take() {
    const int number = spawn_signal;
    spawn_signal = 0;
    return number;
  }

 private:
  static constexpr int kPassed[] = {SIGINT, SIGTERM};
  struct sigaction before_[2]{};
};

uint16_t free_port_here() {
  const Socket probe = listen_at("127.0.0.1", 0);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (::getsockname(probe.file(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("127.0.0.1: no free port: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

// ---- what is started

std::vector<std::string> program_words(const SpawnPlan& plan, bool again) {
  std::vector<std::string> words = plan.command;
  if (plan.any_program) return words;
  words.insert(words.begin(), own_program());
  if (again && plan.command[0] == "train") words.insert(words.end(), {"--resume_from_checkpoint", "auto"});
  return words;
}

// As torchrun sets them. What another launcher set does not hold for these processes.
Variables variables_of(const SpawnPlan& plan, const SpawnPlace& place, uint16_t port, int64_t round) {
  return {{"RANK", std::to_string(place.rank)},
          {"WORLD_SIZE", std::to_string(plan.ranks)},
          {"LOCAL_RANK", std::to_string(place.local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(place.local_ranks)},
          {"MASTER_ADDR", plan.master_address},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_RUN_ID", "transom-spawn"},
          {"TORCHELASTIC_RESTART_COUNT", std::to_string(round)},
          {"TORCHELASTIC_USE_AGENT_STORE", ""},
          {"GROUP_RANK", ""}};
}

// Of this shell, to one of another machine.
std::vector<std::string> over_ssh(const std::string& ssh, const std::string& host, Variables variables,
                                  const std::vector<std::string>& words) {
  std::vector<std::string> prefixes{"TRANSOM_", "HF_", "OMP_", "NCCL_", "GLOO_"};
  for (const auto& description : device_descriptions())
    prefixes.insert(prefixes.end(), description->prefixes.begin(), description->prefixes.end());
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    const size_t equals = text.find('=');
    for (const std::string& prefix : prefixes)
      if (equals != text.npos && text.starts_with(prefix))
        variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> remote{"env"};
  for (const auto& [name, value] : variables)
    if (!value.empty()) remote.push_back(name + "=" + value);
  remote.insert(remote.end(), words.begin(), words.end());
  return {ssh, host, "cd " + shell_words({working_directory().string()}) + " && exec " + shell_words(remote)};
}

std::vector<ChildOptions> children_of(const SpawnPlan& plan, const SpawnFlags& flags, int64_t round) {
  const std::vector<std::string> words = program_words(plan, round > 0);
  std::vector<ChildOptions> children;
  if (plan.use_mpi) {
    std::vector<std::string> all{"mpirun", "-n", std::to_string(plan.ranks)};
    if (::geteuid() == 0) all.emplace_back("--allow-run-as-root");
    if (!flags.no_prefix) all.emplace_back("--tag-output");
    if (plan.hostfile.empty()) all.emplace_back("--oversubscribe");  // else slots are the cores of this machine
    else all.insert(all.end(), {"--hostfile", plan.hostfile});
    if (!plan.master_address.empty()) all.insert(all.end(), {"-x", "MASTER_ADDR=" + plan.master_address});
    if (plan.master_port != 0) all.insert(all.end(), {"-x", fmt::format("MASTER_PORT={}", plan.master_port)});
    all.insert(all.end(), words.begin(), words.end());
    Variables none;
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) none.emplace_back(name, "");
    children.push_back({"mpirun", std::move(all), std::move(none), ::isatty(STDIN_FILENO) == 0});
    return children;
  }
  // As with mpirun rank 0 reads what comes in; from a terminal nobody does, since all are in the background.
  const bool reads_input = ::isatty(STDIN_FILENO) == 0;
  const uint16_t port = plan.master_port != 0 ? plan.master_port : free_port_here();
  for (const SpawnPlace& place : plan.places) {
    Variables variables = variables_of(plan, place, port, round);
    const std::string label = fmt::format("rank {}", place.rank);
    const bool reads = reads_input && place.rank == 0;
    if (place.host.empty()) children.push_back({label, words, std::move(variables), reads});
    else
      children.push_back({label + " on " + place.host, over_ssh(flags.ssh, place.host, variables, words), {}, reads});
  }
  return children;
}

void print_line(const ChildOptions& child, bool is_error, std::string_view line, bool prefix) {
  std::string text(line);
  if (prefix && child.label.starts_with("rank ")) {
    const size_t end = std::min(child.label.find(' ', 5), child.label.size());
    text = fmt::format("[{}] {}", child.label.substr(5, end - 5), line);
  }
  text += '\n';
  std::FILE* stream = is_error ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

int spawn(const SpawnPlan& plan, const SpawnFlags& flags) {
  constexpr int kWrongCall = 2;
  for (const std::string& note : plan.notes) log(LogLevel::kInfo, flags.config_file + ": " + note);
  const PassSignalsOn signals;
  const SuperviseOptions options{
      .take = [&](const auto& child, bool is_error, auto line) { print_line(child, is_error, line, !flags.no_prefix); },
      .interrupt = PassSignalsOn::take};
  for (int64_t round = 0;; ++round) {
    const std::vector<ChildOptions> children = children_of(plan, flags, round);
    const Supervised end = supervise(children, options);
    if (end.signal != 0) return 128 + end.signal;
    if (end.status == 0) return 0;
    const std::string text = text_of_failure(end, children);
    // A wrong call is no better the next time.
    if (end.status == kWrongCall) fail(ErrorKind::kUsage, "{}", text);
    if (round == flags.max_restarts)
      fail("{}{}", text, round > 0 ? fmt::format("; all were started {} times", round + 1) : "");
    std::fprintf(stderr, "transom: %s; starting all again (%lld of %lld)\n", text.c_str(),
                 static_cast<long long>(round + 1), static_cast<long long>(flags.max_restarts));
  }
}

// One process says what a command takes.
int show_help_of(const SpawnPlan& plan) {
  std::vector<std::string> words = program_words(plan, false);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  fail("{} cannot be started: {}", quoted(words[0]), std::strerror(errno));
}

constexpr const char* kSpawnExamples =
    "  transom spawn --nproc 4 train --zero_stage 3 --model_name_or_path MODEL --train_file train.csv --output_dir "
    "out\n"
    "  transom spawn --config_file default_config.yaml train ...\n"
    "  transom spawn --hostfile hosts --max_restarts 3 train ...\n";

}  // namespace

Command spawn_command() {
  Command command{.name = "spawn", .help = "Start the processes of a run, on this machine and others"};
  command.run_words = [](const std::vector<std::string>& words) {
    SpawnFlags flags;
    const std::vector<Option> options = flags.options();
    const size_t count = spawn_words(words, options);
    const auto middle = words.begin() + static_cast<std::ptrdiff_t>(count);
    if (parse_command_line(options, std::vector(words.begin(), middle), {.help_command = "transom spawn --help"})) {
      std::fputs(("Start the processes of a run, on this machine and others\n\n"
                  "Usage: transom spawn [OPTIONS] COMMAND [ARGUMENT ...]\n"
                  "       transom spawn [OPTIONS] -- PROGRAM [ARGUMENT ...]\n" +
                  describe_options(options) + "\nExamples:\n" + kSpawnExamples)
                     .c_str(),
                 stdout);
      return 0;
    }
    const std::vector<std::string> rest(middle, words.end());
    if (!rest.empty() && rest[0] != "--" && std::find_if(rest.begin(), rest.end(), [](const std::string& word) {
                                              return word == "--help" || word == "-h";
                                            }) != rest.end())
      return show_help_of({.command = rest});
    return spawn(plan_spawn(rest, flags), flags);
  };
  return command;
}

}  // namespace transom
