// SPDX-License-Identifier: Apache-2.0
// The program: finds the subcommand, reads its options, and turns errors into one line and an exit status.
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "apps/cli/command.h"
#include "apps/cli/commands/version.h"
#include "apps/cli/output/log_messages.h"
#include "base/error.h"
#include "transom/distributed.h"
#include "work/pipelines/output/result_files.h"

namespace transom {

void DeviceOptions::add_to(Command& command) {
  command.options.push_back({.name = "--device",
                             .value = &device,
                             .help = "cpu, reference, cuda:1 ... (default: TRANSOM_DEVICE, else the best found)",
                             .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--mode", .value = &mode, .help = "lazy, eager, compile or graph", .group = kDeviceGroup});
}

namespace {

constexpr int kFailure = 1, kWrongCall = 2;

// A flag of run that belongs to tasks other than the one that is asked for.
void refuse_other_tasks_flag(const std::string& flag) {
  if (flag == "--task")
    fail(ErrorKind::kUsage, "--task: the task has no flag here: transom run TASK --model MODEL ...");
  std::vector<std::string> owners;
  for (const TaskRecord* task : task_records()) {
    std::vector<std::string> names = names_of(task->parameters());
    if (task->input == InputKind::kQuestion) names.insert(names.end(), {"question", "context"});
    if (task->input == InputKind::kSentences) names.emplace_back(task->one_name);
    if (task->takes_images) names.insert(names.end(), {"image", std::string(task->text_name)});
    if (!file_endings(*task).empty()) names.emplace_back("output");
    if (std::find(names.begin(), names.end(), flag.substr(2)) != names.end()) owners.emplace_back(task->name);
  }
  if (!owners.empty())
    fail(ErrorKind::kUsage, "{}: this task takes no such argument; it belongs to {}", flag, fmt::join(owners, ", "));
}

std::string program_help(const std::vector<Command>& commands) {
  std::string text =
      "Trains, evaluates and serves Hugging Face checkpoints on whatever accelerator it finds.\n\n"
      "Usage: transom COMMAND [ARGUMENT ...]\n\nCommands:\n";
  for (const Command& command : commands)
    text += describe_option({.name = command.name, .value = Option::Setter(), .help = command.help});
  return text + "\nOptions:\n" +
         describe_option({.name = "--help,-h", .value = Option::Setter(), .help = "this; of a command what it takes"}) +
         describe_option({.name = "--version,-V", .value = Option::Setter(), .help = "the version"}) +
         describe_option({.name = "--families",
                          .value = Option::Setter(),
                          .help = "a folder with family files, for every command (also TRANSOM_FAMILIES)"});
}

std::string help_of(const Command& command, const std::string& words) {
  std::string text = fmt::format("{}\n\nUsage: transom {} {}\n", command.help, words, usage_of(command.options)) +
                     describe_options(command.options);
  if (!command.examples.empty()) text += "\nExamples:\n" + command.examples;
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

int run(const Command& command, const std::vector<std::string>& words) {
  if (command.run_words) return command.run_words(words);
  CommandLine line{.help_command = fmt::format("transom {} --help", command.name)};
  if (command.name == "run") {
    // What run takes depends on the task, and a task that is misspelt is what is wrong then.
    line.on_unknown = [&](const std::string& flag) {
      if (!words.empty() && !words[0].starts_with("-") && !find_task(words[0])) need_task(words[0]);
      refuse_other_tasks_flag(flag);
    };
  }
  if (!parse_command_line(command.options, words, line)) return command.run();
  std::fputs(help_of(command, command.name).c_str(), stdout);
  return 0;
}

// --families DIR of any command: a folder before those of TRANSOM_FAMILIES, where this process and those that it begins
// look for families. It leaves the words; what `spawn` begins has words of its own.
void take_families(std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--families", kWithValue = "--families=";
  if (words.empty() || words[0] == "spawn") return;
  for (size_t i = 1; i < words.size(); ++i) {
    const bool joined = words[i].starts_with(kWithValue);
    if (!joined && words[i] != kFlag) continue;
    if (!joined && i + 1 == words.size()) fail(ErrorKind::kUsage, "--families: expected a folder");
    std::string folders = joined ? words[i].substr(kWithValue.size()) : words[i + 1];
    if (const char* others = std::getenv("TRANSOM_FAMILIES"); others && *others) folders += std::string(":") + others;
    setenv("TRANSOM_FAMILIES", folders.c_str(), 1);
    words.erase(words.begin() + static_cast<int64_t>(i), words.begin() + static_cast<int64_t>(i + (joined ? 1 : 2)));
    --i;
  }
}

int run(int count, char** given) {
  std::vector<std::string> words(given + std::min(count, 1), given + count);
  take_families(words);
  const std::vector<Command> commands = {
      train_command(),   evaluate_command(), run_command(words),   generate_command(), chat_command(),
      forward_command(), tokenize_command(), preprocess_command(), bench_command(),    bench_serve_command(),
      explain_command(), certify_command(),  convert_command(),    export_command(),   merge_command(),
      models_command(),  devices_command(),  plan_command(),       prune_command(),    quantize_command(),
      serve_command(),   spawn_command(),    trace_command(),      health_command(),   pull_command(),
      list_command(),    remove_command(),   route_command(),
  };
  if (words.empty()) fail(ErrorKind::kUsage, "a command is missing; see transom --help");
  if (words[0] == "--version" || words[0] == "-V") {
    std::fputs(version_text().c_str(), stdout);
    return 0;
  }
  if (words[0] == "--help" || words[0] == "-h") {
    std::fputs(program_help(commands).c_str(), stdout);
    return 0;
  }
  std::vector<std::string> names;
  // A command of two words goes before that of its first one.
  if (words.size() > 1)
    for (const Command& command : commands)
      if (command.name == words[0] + " " + words[1]) return run(command, {words.begin() + 2, words.end()});
  for (const Command& command : commands) {
    if (command.name == words[0]) return run(command, {words.begin() + 1, words.end()});
    names.push_back(command.name);
  }
  fail(ErrorKind::kUsage, "unknown command {}{} See transom --help", quoted(words[0]), did_you_mean(words[0], names));
}

// Errors quote what comes from outside; whatever it holds, the message stays one line.
int report(const char* text, int status) {
  std::string line = text;
  for (size_t at = 0; (at = line.find_first_of("\n\r", at)) != line.npos; at += 2)
    line.replace(at, 1, line[at] == '\n' ? "\\n" : "\\r");
  std::fprintf(stderr, "transom: error: %s\n", line.c_str());
  return status;
}

// Whether another process of the same call says it, too.
bool is_copy() {
  try {
    return launch_of_environment().rank > 0;
  } catch (const Error&) {
    return false;
  }
}

// Of several processes one speaks, and none waits for the others' end: they are told, and all is left as it is.
int report(ErrorKind kind, std::string text, int status) {
  const bool copy = kind == ErrorKind::kUsage && process_count() == 1 && is_copy();
  const bool speaks = report_failure(kind, text);
  if (speaks && !copy) report(text.c_str(), status);
  if (process_count() == 1) return status;
  std::fflush(nullptr);
  std::_Exit(status);
}

// A full disk behind standard output is a failure like any other.
void finish_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout)
    fail("standard output: cannot be written: {}", std::strerror(errno));
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  using namespace transom;
  print_log_messages();
  // A file that grows beyond the limit of its process is an error of the write, not a death.
  ::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = run(count, words);
    finish_output();
    return status;
  } catch (const Error& error) {
    return report(error.kind(), error.what(), error.kind() == ErrorKind::kUsage ? kWrongCall : kFailure);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(ErrorKind::kInput, fmt::format("{}: {}", quoted(error.path1().string(), 200), error.code().message()),
                  kFailure);
  } catch (const std::bad_alloc&) {
    return report(ErrorKind::kOutOfMemory, "the host's memory is exhausted", kFailure);
  } catch (const std::exception& error) {
    return report(ErrorKind::kInternal, error.what(), kFailure);
  }
}
