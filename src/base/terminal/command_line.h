// SPDX-License-Identifier: Apache-2.0
// Options of a command, declared as data: reading a command line, its checks and --help follow from the declarations.
//
// A flag is "--name value" or "--name=value"; dashes in its name are underscores; "--" ends the flags. Of what is given
// twice the last holds, save for lists, which grow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace transom {

struct Option {
  // Takes the words of one occurrence; errors begin with the name of the flag.
  using Setter = std::function<void(const std::vector<std::string>& words)>;
  using Value = std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*, int64_t*, double*,
                             bool*, Setter>;
  // How many words follow. kByValue: none for a bool, all up to the next flag for a list, one for all others.
  enum class Words { kByValue, kOne, kOneOrNone, kMany };

  std::string name;  // "--model"; "--tokenizer,--model": one of two; "MODEL": positional; "model,--model": either
  Value value;
  std::string help;
  bool required = false;
  // With no value the flag means "true", and --no_name "false"; of a std::string without `words`, "-".
  bool value_optional = false;
  bool hidden = false;     // known, but not worth a line of the help
  std::string group = {};  // heading in the help
  // Of an optional value: only these words, true and false are one; any other word behind the flag is a positional
  // argument. Empty: every word behind the flag is its value.
  std::vector<std::string> words = {};
  Words takes = Words::kByValue;
  std::string type = {};           // what --help calls the value; empty: by `value`
  std::string default_value = {};  // what --help calls the default; empty: what `value` points at
};

// What is read besides options, and what errors refer to.
struct CommandLine {
  std::string help_command;                                 // "transom run --help", which errors name; may be empty
  std::function<void(const std::string& flag)> on_unknown;  // may throw an error that says more of an unknown flag
};

// Reads `words` (without the names of program and command) into what the options point at. True where --help is among
// them: then nothing is missed, but what is there is checked. Throws Error of kUsage that names the flag.
bool parse_command_line(std::span<const Option> options, std::span<const std::string> words,
                        const CommandLine& line = {});

// The options as --help shows them, in columns, under a heading for each group ("Options" for the empty one).
std::string describe_options(std::span<const Option> options);
// One option of these columns.
std::string describe_option(const Option& option);
// "[INPUTS ...] --model TEXT [OPTIONS]": what stands behind the command in a line that shows its use.
std::string usage_of(std::span<const Option> options);

}  // namespace transom
