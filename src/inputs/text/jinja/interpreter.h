// SPDX-License-Identifier: Apache-2.0
// Renders a parsed template. What a template may cost is limited: steps, nesting, bytes of text that it makes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inputs/text/jinja/nodes.h"
#include "inputs/text/jinja/value.h"

namespace transom::jinja {

constexpr size_t kMaximumBytes = size_t{1} << 28;  // that one rendering makes, all intermediate texts counted

// Throws: a value that is not defined was used.
[[noreturn]] void undefined(const Value& value);

class Interpreter {
 public:
  // `variables` are what the template sees besides the functions of Jinja and Transformers.
  std::string render(const Body& body, std::vector<std::pair<std::string, Value>> variables);

  // Of the last render(): what stands between {% generation %} and {% endgeneration %}, as bytes begin..end of the
  // text. Throws where some of it was written inside a macro or a block that is filtered or set, whose place is not
  // known.
  const std::vector<std::pair<size_t, size_t>>& generated() const;

  // For filters, tests and methods.
  Value text(std::string value);  // counts its bytes
  Value list(List items, bool tuple = false);
  List items_of(const Value& value);  // of what a for loop goes through
  Value attribute(const Value& value, const std::string& name);
  Value subscript(const Value& value, const Value& key);
  Value filter(const std::string& name, const Value& value, Arguments& arguments);
  bool test(const std::string& name, const Value& value, const Arguments& arguments);
  Value binary(const std::string& symbol, const Value& a, const Value& b);

 private:
  struct Scope {
    std::shared_ptr<Scope> outer;
    std::unordered_map<std::string, Value> variables;
  };
  using ScopePointer = std::shared_ptr<Scope>;
  enum class Flow { kOn, kBreak, kContinue };
  static constexpr const char* kLoopCall = "loop()";  // what a call of a recursive loop does, beside its `loop`
  struct Level;

  Flow execute(const Body& body, const ScopePointer& scope, std::string& out);
  Flow execute(const Statement& statement, const ScopePointer& scope, std::string& out);
  Flow loop(const Statement& statement, const ScopePointer& scope, std::string& out);
  Flow loop_over(const Statement& statement, List items, const ScopePointer& scope, int depth, std::string& out);
  Flow generation(const Statement& statement, const ScopePointer& scope, std::string& out);
  void assign(const Statement& statement, Value value, const ScopePointer& scope);
  void unpack(const std::vector<std::string>& names, Value value, Scope& scope);
  Value macro(const Statement& statement, const ScopePointer& scope);
  void call_block(const Statement& statement, const ScopePointer& scope, std::string& out);

  Value evaluate(const Expression& expression, const ScopePointer& scope);
  Value evaluate_here(const Expression& expression, const ScopePointer& scope);
  bool comparison(const Expression& expression, const ScopePointer& scope);
  Value slice(const Expression& expression, const ScopePointer& scope);
  Arguments arguments(const Expression& expression, const ScopePointer& scope);
  Value call(const Expression& expression, const ScopePointer& scope, const Value* caller);
  Value lookup(const std::string& name, const ScopePointer& scope);
  void define_functions(Scope& scope);
  void append(std::string& out, std::string_view text);

  ScopePointer top_;                       // what the template sets outside of loops and blocks
  const std::string* rendered_ = nullptr;  // what render() makes, while it does
  std::vector<std::pair<size_t, size_t>> generated_;
  bool lost_generation_ = false;
  size_t bytes_ = 0;
  int depth_ = 0;
  std::vector<std::weak_ptr<Dictionary>> name_spaces_;  // emptied at the end: they may hold each other
  std::vector<std::weak_ptr<Scope>> scopes_;            // and macros their scope
};

bool is_filter(std::string_view name);  // of Jinja, also where it is not carried out here

// A method of a text, a list or a dictionary; undefined if the value has none of that name.
Value find_method(Interpreter& interpreter, const Value& value, const std::string& name);

// Argument `i`, or the one of that name, or undefined.
Value argument(const Arguments& arguments, size_t i, const char* name);
int64_t integer_argument(const Arguments& arguments, size_t i, const char* name, int64_t otherwise);
bool flag_argument(const Arguments& arguments, size_t i, const char* name, bool otherwise);
std::string text_argument(const Arguments& arguments, size_t i, const char* name, const char* otherwise);

}  // namespace transom::jinja
