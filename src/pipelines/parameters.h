// SPDX-License-Identifier: Apache-2.0
// The parameters of a task, declared once, beside the task: flags and their help, the keys of requests, the keyword
// arguments of the C++ API and their checks follow from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

struct TaskParameter {
  enum class Type {
    kFlag,        // true or false
    kFlagOrWord,  // true, false or one of the choices; on a command line the name alone is true
    kInteger,
    kNumber,
    kNumbers,  // a number or a list of them
    kText,
    kTexts,       // a text or a list of texts; on a command line with commas between
    kJson,        // a list or an object
    kGeneration,  // a field of GenerationConfig, which checks itself
  };
  std::string name;
  Type type = Type::kText;
  std::string help;
  std::string otherwise = {};             // the default, as help shows it; empty where there is none to show
  std::vector<std::string> choices = {};  // of kText and kFlagOrWord: the allowed words
  bool required = false;                  // here or in the input
  bool flag_alone = false;                // of kGeneration: the name alone is true
};

using TaskParameters = std::vector<TaskParameter>;

// What a word on a command line stands for: "4", "true", "none", "a,b", "[1, 2]". Refuses, as --name, what does not
// fit.
Json parameter_of_word(const TaskParameter& parameter, const std::string& word);
// Refuses a value of another type by the name of the parameter. null, where a task takes it, is the default.
void check_parameter(const TaskParameter& parameter, const Json& value);
// "a whole number", "one of first, max": what the parameter takes, for help and errors.
std::string expected_of(const TaskParameter& parameter);

std::vector<std::string> names_of(const TaskParameters& parameters);

}  // namespace transom
