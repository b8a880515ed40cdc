// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text/numbers.h"

namespace transom {
namespace {

std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= option.name.size();) {
    const size_t end = std::min(option.name.find(',', begin), option.name.size());
    names.push_back(option.name.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool is_positional(const Option& option) { return !option.name.starts_with("-"); }

bool is_bool(const Option& option) { return std::holds_alternative<bool*>(option.value); }

Option::Words words_of(const Option& option) {
  if (option.value_optional) return Option::Words::kOneOrNone;
  if (option.takes != Option::Words::kByValue) return option.takes;
  return std::holds_alternative<std::vector<std::string>*>(option.value) ? Option::Words::kMany : Option::Words::kOne;
}

// As HfArgumentParser reads it, and on and off.
std::optional<bool> truth_of(std::string_view word) {
  if (word == "on" || word == "On" || word == "ON") return true;
  if (word == "off" || word == "Off" || word == "OFF") return false;
  return parse_bool(word);
}

template <typename Number>
Number number_of(const std::string& text, std::string_view label) {
  Number value{};
  const char *begin = text.data(), *end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  const char* expected = std::is_integral_v<Number> ? "a whole number" : "a number";
  if (stop != end || error == std::errc::invalid_argument)
    fail(ErrorKind::kUsage, "{}: expected {}, found {}", label, expected, quoted(text));
  if (error != std::errc() || !std::isfinite(static_cast<double>(value)))
    fail(ErrorKind::kUsage, "{}: expected {} that 64 bits hold, found {}", label, expected, quoted(text));
  return value;
}

struct Assign {
  const std::vector<std::string>& words;
  const std::string& label;

  void operator()(std::string* value) const { *value = words[0]; }
  void operator()(std::optional<std::string>* value) const { *value = words[0]; }
  void operator()(std::vector<std::string>* value) const { value->insert(value->end(), words.begin(), words.end()); }
  void operator()(int64_t* value) const { *value = number_of<int64_t>(words[0], label); }
  void operator()(double* value) const { *value = number_of<double>(words[0], label); }
  void operator()(bool* value) const {
    const std::optional<bool> truth = truth_of(words[0]);
    if (!truth) fail(ErrorKind::kUsage, "{}: expected true or false, found {}", label, quoted(words[0]));
    *value = *truth;
  }
  void operator()(const Option::Setter& set) const { set(words); }
};

class Parser {
 public:
  Parser(std::span<const Option> options, std::span<const std::string> words, const CommandLine& line)
      : options_(options), words_(words), line_(line), given_(options.size(), false) {}

  bool parse() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      if (flags_end_ || word == "-" || !word.starts_with("-") || is_number(word)) {
        positionals_.push_back(word);
        ++at_;
      } else if (word == "--") {
        flags_end_ = true;
        ++at_;
      } else {
        read_flag(word);
      }
    }
    // What is misspelt is said before what is missing, and what is wrong in itself before both.
    for (const Occurrence& one : occurrences_) std::visit(Assign{one.words, one.label}, one.option->value);
    if (help_) return true;
    take_positionals();
    for (size_t i = 0; i < options_.size(); ++i)
      if (options_[i].required && !given_[i])
        fail(ErrorKind::kUsage, "{} is missing: {}{}", shown_name(options_[i]), options_[i].help, see());
    return false;
  }

 private:
  struct Occurrence {
    const Option* option;
    std::vector<std::string> words;
    std::string label;
  };

  static bool is_number(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && parse_double(word).has_value();
  }
  // A positional argument that is also a flag is asked for by the flag's name where it has one.
  static std::string shown_name(const Option& option) {
    const std::vector<std::string> names = names_of(option);
    return names.size() > 1 && is_positional(option) ? names[1] : names[0];
  }
  std::string see() const { return line_.help_command.empty() ? "" : "; see " + line_.help_command; }

  const Option* find(const std::string& name) {
    for (size_t i = 0; i < options_.size(); ++i) {
      const std::vector<std::string> names = names_of(options_[i]);
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      given_[i] = true;
      return &options_[i];
    }
    return nullptr;
  }

  [[noreturn]] void refuse_flag(const std::string& name) const {
    if (line_.on_unknown) line_.on_unknown(name);
    std::vector<std::string> known{"--help"};
    for (const Option& option : options_)
      for (std::string& one : names_of(option))
        if (one.starts_with("-")) known.push_back(std::move(one));
    const std::string* near = nearest(name, known);
    fail(ErrorKind::kUsage, "unknown argument {}{}{}{}", quoted(name),
         near ? fmt::format(", did you mean {}?", quoted(*near)) : "",
         name.starts_with("--") ? "" : "; write -- before texts that begin with a dash",
         line_.help_command.empty() ? "" : (near ? " See " : "; see ") + line_.help_command);
  }

  bool is_value(const Option& option, const std::string& word) const {
    if (word.starts_with("--")) return false;
    return option.words.empty() || truth_of(word) ||
           std::find(option.words.begin(), option.words.end(), word) != option.words.end();
  }

  void read_flag(const std::string& word) {
    ++at_;
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    if (name.starts_with("--")) std::replace(name.begin() + 2, name.end(), '-', '_');
    if (name == "--help" || name == "-h") return void(help_ = true);
    const Option* option = find(name);
    bool negated = false;
    if (!option && name.starts_with("--no_")) {
      option = find("--" + name.substr(5));
      negated = option && (is_bool(*option) || option->value_optional);
      if (!negated) option = nullptr;
    }
    if (!option) refuse_flag(name);
    Occurrence one{option, {}, name};
    if (equals != word.npos) one.words.push_back(word.substr(equals + 1));
    take_words(one);
    if (negated) {
      if (!one.words.empty())
        fail(ErrorKind::kUsage, "{}: expected no value, found {}", name, quoted(one.words.back()));
      one.words = {"false"};
    }
    // A text that may be left out is mostly a file's name.
    const bool file =
        option->value_optional && option->words.empty() && std::holds_alternative<std::string*>(option->value);
    if (one.words.empty() && (is_bool(*option) || option->value_optional)) one.words = {file ? "-" : "true"};
    if (one.words.empty() && words_of(*option) == Option::Words::kOne)
      fail(ErrorKind::kUsage, "{}: expected a value, found none{}", name, see());
    // "on" and "1" of a flag with words of its own.
    if (option->value_optional && !option->words.empty() &&
        std::find(option->words.begin(), option->words.end(), one.words[0]) == option->words.end())
      if (const std::optional<bool> truth = truth_of(one.words[0])) one.words = {*truth ? "true" : "false"};
    occurrences_.push_back(std::move(one));
  }

  // The words behind a flag that belong to it.
  void take_words(Occurrence& one) {
    if (is_bool(*one.option)) return;
    const Option::Words takes = words_of(*one.option);
    while (at_ < words_.size() && !words_[at_].starts_with("--")) {
      if (takes != Option::Words::kMany && !one.words.empty()) return;
      if (takes == Option::Words::kOneOrNone && !is_value(*one.option, words_[at_])) return;
      one.words.push_back(words_[at_++]);
    }
  }

  void take_positionals() {
    size_t taken = 0;
    for (size_t i = 0; i < options_.size() && taken < positionals_.size(); ++i) {
      if (!is_positional(options_[i]) || given_[i]) continue;
      const bool list = std::holds_alternative<std::vector<std::string>*>(options_[i].value);
      const size_t count = list ? positionals_.size() - taken : 1;
      const auto begin = positionals_.begin() + static_cast<ptrdiff_t>(taken);
      const std::vector<std::string> words(begin, begin + static_cast<ptrdiff_t>(count));
      std::visit(Assign{words, options_[i].name}, options_[i].value);
      given_[i] = true;
      taken += count;
    }
    if (taken < positionals_.size()) fail(ErrorKind::kUsage, "not expected: {}{}", quoted(positionals_[taken]), see());
  }

  std::span<const Option> options_;
  std::span<const std::string> words_;
  const CommandLine& line_;
  std::vector<bool> given_;
  std::vector<Occurrence> occurrences_;
  std::vector<std::string> positionals_;
  size_t at_ = 0;
  bool flags_end_ = false, help_ = false;
};

}  // namespace

bool parse_command_line(std::span<const Option> options, std::span<const std::string> words, const CommandLine& line) {
  return Parser(options, words, line).parse();
}

}  // namespace transom
