// SPDX-License-Identifier: Apache-2.0
// A subcommand: what it takes and what it does. main.cpp reads the command line for all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace transom {

struct Option {
  std::string name;  // "--model"; without dashes: a positional argument
  std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*, int64_t*, double*, bool*> value;
  std::string help;
  bool required = false;
};

struct Command {
  std::string name, help;
  std::string examples;  // shown below --help
  std::vector<Option> options;
  std::function<int()> run;  // the exit status
  // Takes all words behind the name itself instead of `options`.
  std::function<int(const std::vector<std::string>&)> run_words;
};

// One maker for each file of this folder.
Command devices_command();
Command evaluate_command();
Command forward_command();
Command preprocess_command();
Command run_command();
Command tokenize_command();
Command train_command();

// Options that several commands share.
struct DeviceOptions {
  std::string device, mode = "lazy";
  void add_to(Command& command);
  void apply() const;  // chooses device and mode; refuses unknown ones
};

}  // namespace transom
