// SPDX-License-Identifier: Apache-2.0
// The program: finds the subcommand, reads its options, and turns errors into one line and an exit status.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "cli/command.h"
#include "pipelines/pipeline.h"
#include "transom/distributed.h"

namespace transom {

void DeviceOptions::add_to(Command& command) {
  command.options.push_back({.name = "--device",
                             .value = &device,
                             .help = "cpu, reference, hpu:1 ... (default: TRANSOM_DEVICE, else the best found)",
                             .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--mode", .value = &mode, .help = "lazy, eager, compile or graph", .group = kDeviceGroup});
}

namespace {

constexpr int kFailure = 1, kWrongCall = 2;

// What is wrong with the text of a number; empty if nothing is. CLI11 would take the nearest one that can be told.
template <typename Number>
std::string number_fault(const std::string& text) {
  Number value{};
  const char *begin = text.data(), *end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  const char* expected = std::is_integral_v<Number> ? "a whole number" : "a number";
  if (stop != end || error == std::errc::invalid_argument)
    return fmt::format("expected {}, found {}", expected, quoted(text));
  if (error != std::errc() || !std::isfinite(static_cast<double>(value)))
    return fmt::format("expected {} that 64 bits hold, found {}", expected, quoted(text));
  return "";
}

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* value) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(value), bool*>) return app.add_flag(option.name, *value, option.help);
        else return app.add_option(option.name, *value, option.help);
      },
      option.value);
  if (std::holds_alternative<int64_t*>(option.value)) added->check(number_fault<int64_t>, "");
  if (std::holds_alternative<double*>(option.value)) added->check(number_fault<double>, "");
  // Of what is given twice the last holds, as with train.
  if (option.name.starts_with("--") && !std::holds_alternative<std::vector<std::string>*>(option.value))
    added->take_last();
  if (option.required) added->required();
  if (option.hidden) added->group("");
  else if (!option.group.empty()) added->group(option.group);
  if (option.value_optional) added->expected(0, 1)->default_str("-");
  if (option.value_optional) return;
  if (std::holds_alternative<std::string*>(option.value) || std::holds_alternative<int64_t*>(option.value) ||
      std::holds_alternative<double*>(option.value))
    if (!option.required) added->capture_default_str();
}

// A flag of run that belongs to tasks other than the one that is asked for.
void refuse_other_tasks_flag(const std::string& flag) {
  if (flag == "--task")
    fail(ErrorKind::kUsage, "--task: the task has no flag here: transom run TASK --model MODEL ...");
  std::vector<std::string> owners;
  for (const std::string& task : pipeline_tasks()) {
    const InputKind kind = input_kind_of_task(task);
    std::vector<std::string> names = names_of(parameters_of_task(task));
    if (kind == InputKind::kQuestion) names.insert(names.end(), {"question", "context"});
    if (kind == InputKind::kSentences) names.emplace_back("source_sentence");
    if (std::find(names.begin(), names.end(), flag.substr(2)) != names.end()) owners.push_back(task);
  }
  if (!owners.empty())
    fail(ErrorKind::kUsage, "{}: this task takes no such argument; it belongs to {}", flag, fmt::join(owners, ", "));
}

// CLI11 reports what is missing before what is misspelt; the misspelt word is what helps.
void refuse_unknown_words(const std::vector<Command>& commands, int count, char** words) {
  if (count < 2 || words[1][0] == '-') return;
  std::vector<std::string> names;
  for (const Command& command : commands) {
    names.push_back(command.name);
    if (command.name != words[1]) continue;
    std::vector<std::string> flags{"--help"};
    for (const Option& option : command.options)  // one of two names is "--tokenizer,--model" or "model,--model"
      for (size_t begin = 0; begin < option.name.size();) {
        const size_t comma = std::min(option.name.find(',', begin), option.name.size());
        if (option.name[begin] == '-') flags.push_back(option.name.substr(begin, comma - begin));
        begin = comma + 1;
      }
    // What run takes depends on the task, and a task that is misspelt is what is wrong then.
    if (command.name == "run" && count > 2 && words[2][0] != '-' && !is_pipeline_task(words[2]))
      parameters_of_task(words[2]);
    for (int i = 2; i < count && std::string_view(words[i]) != "--"; ++i) {
      const std::string_view word(words[i]);
      const std::string name(word.substr(0, word.find('=')));
      if (!word.starts_with("--") || std::find(flags.begin(), flags.end(), name) != flags.end()) continue;
      if (command.name == "run") refuse_other_tasks_flag(name);
      fail(ErrorKind::kUsage, "unknown argument {}{} See transom {} --help", name, did_you_mean(name, flags),
           command.name);
    }
    return;
  }
  fail(ErrorKind::kUsage, "unknown command {}{} See transom --help", quoted(words[1]), did_you_mean(words[1], names));
}

// What a word means as the value of a flag: as in HfArgumentParser, and on and off.
std::optional<bool> truth_of(const std::string& word) {
  if (word == "on" || word == "On" || word == "ON") return true;
  if (word == "off" || word == "Off" || word == "OFF") return false;
  return parse_bool(word);
}

// "--do_sample text": the word behind a flag whose value may be left out is its value only if it can be one.
std::vector<std::string> completed(const Command& command, std::vector<std::string> words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i)
    for (const Option& option : command.options) {
      if (option.words.empty() || words[i] != option.name) continue;
      const bool value = i + 1 < words.size() &&
                         std::find(option.words.begin(), option.words.end(), words[i + 1]) != option.words.end();
      if (value) break;
      const std::optional<bool> truth = i + 1 < words.size() ? truth_of(words[i + 1]) : std::nullopt;
      if (truth) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      words[i] += truth.value_or(true) ? "=true" : "=false";
      break;
    }
  return words;
}

int run(int count, char** words) {
  if (count == 2 && (std::string_view(words[1]) == "--version" || std::string_view(words[1]) == "-V")) {
    std::puts("transom " TRANSOM_VERSION);
    return 0;
  }
  CLI::App app("Trains, evaluates and serves Hugging Face checkpoints on whatever accelerator it finds.", "transom");
  app.require_subcommand(1);
  bool version = false;  // answered above
  app.add_flag("--version,-V", version, "print the version");
  const std::vector<std::string> all(words + std::min(count, 1), words + count);
  std::vector<Command> commands = {
      train_command(),    evaluate_command(),   run_command(all),   generate_command(), forward_command(),
      tokenize_command(), preprocess_command(), bench_command(),    explain_command(),  certify_command(),
      merge_command(),    models_command(),     quantize_command(), devices_command(),
  };
  // A command that reads its own words gets them untouched.
  if (count > 1)
    for (const Command& command : commands)
      if (command.run_words && command.name == words[1]) return command.run_words({words + 2, words + count});
  refuse_unknown_words(commands, count, words);
  for (Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->footer(command.examples);
    for (const Option& option : command.options) add_option(*sub, option);
  }
  std::vector<std::string> given = all;
  for (const Command& command : commands)
    if (!given.empty() && command.name == given[0]) given = completed(command, std::move(given));
  std::reverse(given.begin(), given.end());  // as CLI11 takes them
  try {
    app.parse(given);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fail(ErrorKind::kUsage, "{}; see transom {}--help", error.what(),
         app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ");
  }
  for (const Command& command : commands)
    if (app.got_subcommand(command.name)) return command.run();
  return kWrongCall;
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
  set_log_sink([](LogLevel level, std::string_view text) {
    if (level != LogLevel::kDebug) std::fprintf(stderr, "transom: %.*s\n", static_cast<int>(text.size()), text.data());
  });
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
    return report(ErrorKind::kInternal, "the host's memory is exhausted", kFailure);
  } catch (const std::exception& error) {
    return report(ErrorKind::kInternal, error.what(), kFailure);
  }
}
