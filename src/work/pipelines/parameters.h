// SPDX-License-Identifier: Apache-2.0
// The parameters of a task, declared once, beside the task: flags and their help, the keys of requests, the keyword
// arguments of the C++ API and their checks follow from it. And what a task reads of those that are given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "transom/tasks.h"

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
  bool is_path = false;                   // names files, which requests to a server may not do: they give data: URLs
};

using TaskParameters = std::vector<TaskParameter>;

// What a word on a command line stands for: "4", "true", "none", "a,b", "[1, 2]". Refuses, as --name, what does not
// fit.
TaskOptions::Value parameter_of_word(const TaskParameter& parameter, const std::string& word);
// The parts of "a, b" without the spaces around them.
std::vector<std::string> words_between_commas(const std::string& text);
// Refuses a value of another type by the name of the parameter. None, where a task takes it, is the default.
void check_parameter(const TaskParameter& parameter, const TaskOptions::Value& value);
// Refuses options that are not among the parameters, and values that do not fit them.
void check_options(const TaskParameters& parameters, const TaskOptions& options);
// "a whole number", "one of first, max": what the parameter takes, for help and errors.
std::string expected_of(const TaskParameter& parameter);

std::vector<std::string> names_of(const TaskParameters& parameters);
const TaskParameter* find_parameter(const TaskParameters& parameters, std::string_view name);

// ---- values as JSON

// The value that JSON gives a parameter. Lists stay JSON text but for kTexts and kNumbers, so that no integer becomes a
// float on the way.
TaskOptions::Value value_of_json(const TaskParameter& parameter, const Json& json);
Json json_of_value(const TaskOptions::Value& value);
// As an error shows it.
std::string shown_value(const TaskOptions::Value& value);

// ---- what a task reads

int64_t batch_size_of(const TaskOptions& options);  // `batch_size`; 1 without it
int64_t int_option(const TaskOptions& options, std::string_view name, int64_t otherwise);
std::optional<double> number_option(const TaskOptions& options, std::string_view name);  // empty: none is given
std::string text_option(const TaskOptions& options, std::string_view name, const std::string& otherwise);
bool flag_option(const TaskOptions& options, std::string_view name, bool otherwise);
// The same where None is the default, too.
bool flag_or_default(const TaskOptions& options, std::string_view name, bool otherwise);
// A text is a list of one; empty: none is given.
std::optional<std::vector<std::string>> texts_option(const TaskOptions& options, std::string_view name);
// A list or an object; null where none is given.
Json json_option(const TaskOptions& options, std::string_view name);
// Whether it is there and not None.
bool is_given(const TaskOptions& options, std::string_view name);
// Refuses those of the names that are given, but for None and false: "prompt: has no effect without pooling".
void refuse_without_effect(const TaskOptions& options, const std::vector<std::string>& names, const std::string& why);

}  // namespace transom
