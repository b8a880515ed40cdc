// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/jinja/interpreter.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {

constexpr int kMaximumDepth = 400;

using Kind = Expression::Kind;

struct Interpreter::Level {
  explicit Level(Interpreter& owner) : interpreter(owner) {
    require(++interpreter.depth_ < kMaximumDepth, "calls and blocks are nested deeper than {} levels", kMaximumDepth);
  }
  ~Level() { --interpreter.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  Interpreter& interpreter;
};

namespace {

// Errors get the line of the innermost expression or statement that they come from.
template <typename Action>
auto at_line(int line, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.starts_with("line ") || line == 0) throw;
    fail("line {}: {}", line, text);
  }
}

}  // namespace

void undefined(const Value& value) {
  const std::string& name = value.undefined_name();
  if (name.find(' ') != name.npos) fail("{}", name);
  fail("'{}' is undefined", name);
}

Value argument(const Arguments& arguments, size_t i, const char* name) {
  if (i < arguments.positional.size()) return arguments.positional[i];
  for (const auto& [key, value] : arguments.named)
    if (key == name) return value;
  return {};
}

int64_t integer_argument(const Arguments& arguments, size_t i, const char* name, int64_t otherwise) {
  const Value value = argument(arguments, i, name);
  if (value.undefined() || value.none()) return otherwise;
  int64_t result = 0;
  require(value.as_integer(result), "{}: expected an integer, found a value of type {}", name, value.type_name());
  return result;
}

bool flag_argument(const Arguments& arguments, size_t i, const char* name, bool otherwise) {
  const Value value = argument(arguments, i, name);
  return value.undefined() ? otherwise : value.truth();
}

std::string text_argument(const Arguments& arguments, size_t i, const char* name, const char* otherwise) {
  const Value value = argument(arguments, i, name);
  return value.undefined() ? otherwise : to_text(value);
}

const std::vector<std::pair<size_t, size_t>>& Interpreter::generated() const {
  require(!lost_generation_,
          "{{% generation %}} stands inside a macro or a block that is set or filtered: expected it where the template "
          "writes to its text directly");
  return generated_;
}

Value Interpreter::text(std::string value) {
  bytes_ += value.size();
  require(bytes_ < kMaximumBytes, "the template makes more than {} bytes of text", kMaximumBytes);
  return value;
}

Value Interpreter::list(List items, bool tuple) {
  spend(items.size());
  bytes_ += items.size() * sizeof(Value);
  require(bytes_ < kMaximumBytes, "the template makes more than {} bytes of lists and text", kMaximumBytes);
  return Value(std::move(items), tuple);
}

void Interpreter::append(std::string& out, std::string_view text) {
  bytes_ += text.size();
  require(bytes_ < kMaximumBytes, "the template makes more than {} bytes of text", kMaximumBytes);
  out.append(text);
}

std::string Interpreter::render(const Body& body, std::vector<std::pair<std::string, Value>> variables) {
  const Meter meter;
  struct Cleaner {
    Interpreter& interpreter;
    ~Cleaner() {
      for (const auto& weak : interpreter.name_spaces_)
        if (const auto dictionary = weak.lock()) {
          auto items = std::move(dictionary->items);
          dictionary->items.clear(), dictionary->index.clear();
        }
      for (const auto& weak : interpreter.scopes_)
        if (const auto scope = weak.lock()) {
          auto variables = std::move(scope->variables);
          scope->variables.clear();
        }
      interpreter.top_.reset();
    }
  } cleaner{*this};
  auto scope = std::make_shared<Scope>();
  define_functions(*scope);
  auto inner = std::make_shared<Scope>(Scope{scope, {}});
  for (auto& [name, value] : variables) inner->variables[name] = std::move(value);
  top_ = inner;
  std::string out;
  rendered_ = &out;
  execute(body, inner, out);
  rendered_ = nullptr;
  return out;
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePointer& scope, std::string& out) {
  const Level level(*this);
  for (const Statement& statement : body) {
    const Flow flow = at_line(statement.line, [&] { return execute(statement, scope, out); });
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePointer& scope, std::string& out) {
  spend(1);
  const auto inner = [&] { return std::make_shared<Scope>(Scope{scope, {}}); };
  // A block that a filter may follow; `input` is what the filter begins with.
  const auto filtered = [&](std::string text) {
    Value value = this->text(std::move(text));
    std::vector<const Expression*> chain;
    for (const Expression* filter = statement.value.get(); filter != nullptr; filter = filter->parts[0].get())
      chain.push_back(filter);
    for (auto filter = chain.rbegin(); filter != chain.rend(); ++filter) {
      require((*filter)->kind == Kind::kFilter, "expected a filter");
      Arguments given = arguments(**filter, scope);
      value = this->filter((*filter)->name, value, given);
    }
    return value;
  };
  switch (statement.kind) {
    case Statement::Kind::kText:
      append(out, statement.text);
      break;
    case Statement::Kind::kOutput:
      append(out, to_text(evaluate(*statement.value, scope)));
      break;
    case Statement::Kind::kIf:
      for (size_t i = 0; i < statement.bodies.size(); ++i) {
        if (statement.conditions[i] && !evaluate(*statement.conditions[i], scope).truth()) continue;
        return execute(statement.bodies[i], scope, out);
      }
      break;
    case Statement::Kind::kFor:
      return loop(statement, scope, out);
    case Statement::Kind::kSet:
      assign(statement, evaluate(*statement.value, scope), scope);
      break;
    case Statement::Kind::kSetBlock: {
      std::string text;
      execute(statement.bodies[0], inner(), text);
      assign(statement, filtered(std::move(text)), scope);
      break;
    }
    case Statement::Kind::kMacro:
      spend(100);
      scopes_.push_back(scope);
      scope->variables[statement.text] = macro(statement, scope);
      break;
    case Statement::Kind::kCallBlock:
      call_block(statement, scope, out);
      break;
    case Statement::Kind::kFilterBlock: {
      std::string text;
      execute(statement.bodies[0], inner(), text);
      append(out, to_text(filtered(std::move(text))));
      break;
    }
    case Statement::Kind::kWith: {
      const auto variables = inner();
      for (size_t i = 0; i < statement.names.size(); ++i)
        variables->variables[statement.names[i]] = evaluate(*statement.defaults[i], scope);
      return execute(statement.bodies[0], variables, out);
    }
    case Statement::Kind::kGeneration:
      return generation(statement, inner(), out);
    case Statement::Kind::kBlock:
      return execute(statement.bodies[0], std::make_shared<Scope>(Scope{statement.marked ? scope : top_, {}}), out);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::generation(const Statement& statement, const ScopePointer& scope, std::string& out) {
  const size_t begin = out.size();
  const Flow flow = execute(statement.bodies[0], scope, out);
  // Text of a macro or of a block with a filter goes to a place that is not known yet.
  if (&out != rendered_) lost_generation_ = true;
  else if (out.size() > begin) generated_.emplace_back(begin, out.size());
  return flow;
}

void Interpreter::unpack(const std::vector<std::string>& names, Value value, Scope& scope) {
  if (names.size() == 1) {
    scope.variables[names[0]] = std::move(value);
    return;
  }
  const List items = items_of(value);
  require(items.size() == names.size(), "expected {} values, found {}", names.size(), items.size());
  for (size_t i = 0; i < names.size(); ++i) scope.variables[names[i]] = items[i];
}

void Interpreter::assign(const Statement& statement, Value value, const ScopePointer& scope) {
  if (statement.name_space.empty()) return unpack(statement.names, std::move(value), *scope);
  const Value target = lookup(statement.name_space, scope);
  Dictionary* dictionary = target.mutable_dictionary();
  require(dictionary != nullptr && dictionary->name_space, "cannot assign an attribute of '{}', which is no namespace",
          statement.name_space);
  require(!statement.names[0].starts_with('_'), "a namespace has no attribute {}", quoted(statement.names[0]));
  dictionary->set(Value(statement.names[0]), std::move(value));
}

Value Interpreter::macro(const Statement& statement, const ScopePointer& scope) {
  // The scope holds the macro, the macro the scope: render() takes them apart.
  return Function([this, &statement, scope](Arguments& given) {
    auto inner = std::make_shared<Scope>(Scope{scope, {}});
    const size_t count = statement.names.size(), plain = count - statement.defaults.size();
    require(given.positional.size() <= count, "macro '{}' takes not more than {} argument(s)", statement.text, count);
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = statement.names[i];
      Value value = argument(given, i, name.c_str());
      const bool missing = value.undefined() && i >= given.positional.size();
      if (missing && i >= plain) value = evaluate(*statement.defaults[i - plain], inner);
      else if (missing) value = Undefined{name};
      inner->variables[name] = std::move(value);
    }
    for (const auto& [name, value] : given.named) {
      const bool known = std::find(statement.names.begin(), statement.names.end(), name) != statement.names.end();
      require(known || name == "caller", "macro '{}' takes no argument '{}'", statement.text, name);
      if (name == "caller") inner->variables[name] = value;
    }
    std::string out;
    execute(statement.bodies[0], inner, out);
    return text(std::move(out));
  });
}

void Interpreter::call_block(const Statement& statement, const ScopePointer& scope, std::string& out) {
  const Value caller = macro(statement, scope);
  append(out, to_text(call(*statement.value, scope, &caller)));
}

Value Interpreter::lookup(const std::string& name, const ScopePointer& scope) {
  for (const Scope* place = scope.get(); place != nullptr; place = place->outer.get()) {
    const auto found = place->variables.find(name);
    if (found != place->variables.end()) return found->second;
  }
  return Undefined{name};
}

Value Interpreter::evaluate(const Expression& expression, const ScopePointer& scope) {
  const Level level(*this);
  spend(1);
  return at_line(expression.line, [&] { return evaluate_here(expression, scope); });
}

Value Interpreter::evaluate_here(const Expression& expression, const ScopePointer& scope) {
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i], scope); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return lookup(expression.name, scope);
    case Kind::kList:
    case Kind::kTuple: {
      List items;
      for (size_t i = 0; i < expression.parts.size(); ++i) items.push_back(part(i));
      return list(std::move(items), expression.kind == Kind::kTuple);
    }
    case Kind::kDictionary: {
      auto dictionary = std::make_shared<Dictionary>();
      for (size_t i = 0; i < expression.parts.size(); i += 2) {
        const Value key = part(i);
        dictionary->set(key, part(i + 1));
      }
      return dictionary;
    }
    case Kind::kAttribute:
      return attribute(part(0), expression.name);
    case Kind::kSubscript:
      return subscript(part(0), part(1));
    case Kind::kSlice:
      return slice(expression, scope);
    case Kind::kCall:
      return call(expression, scope, nullptr);
    case Kind::kFilter: {
      const Value value = part(0);
      Arguments given = arguments(expression, scope);
      return filter(expression.name, value, given);
    }
    case Kind::kTest: {
      const Value value = part(0);
      return test(expression.name, value, arguments(expression, scope));
    }
    case Kind::kNot:
      return !part(0).truth();
    case Kind::kNegative:
    case Kind::kPositive: {
      const Value value = part(0);
      if (value.undefined()) undefined(value);
      require(value.number(), "bad operand type for unary -: '{}'", value.type_name());
      int64_t integer = 0;
      const bool negative = expression.kind == Kind::kNegative;
      if (value.as_integer(integer))
        return negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(integer)) : integer;
      return negative ? -value.as_double() : value.as_double();
    }
    case Kind::kAnd: {
      Value first = part(0);
      return first.truth() ? part(1) : first;
    }
    case Kind::kOr: {
      Value first = part(0);
      return first.truth() ? first : part(1);
    }
    case Kind::kBinary: {
      const Value first = part(0);
      return binary(expression.name, first, part(1));
    }
    case Kind::kComparison:
      return comparison(expression, scope);
    case Kind::kConcatenation: {
      std::string result;
      for (size_t i = 0; i < expression.parts.size(); ++i) append(result, to_text(part(i)));
      return result;
    }
    case Kind::kSpread:
      break;
    case Kind::kConditional:
      if (part(0).truth()) return part(1);
      return expression.parts[2] ? part(2) : Value(Undefined{"the inline if-expression without else"});
  }
  return {};
}

bool Interpreter::comparison(const Expression& expression, const ScopePointer& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    const std::string& symbol = expression.operators[i];
    bool result = false;
    if (symbol == "==" || symbol == "!=") {
      result = equal(left, right) == (symbol == "==");
    } else if (symbol == "in" || symbol == "not in") {
      Arguments given{{right}, {}};
      result = test("in", left, given) == (symbol == "in");
    } else {
      if (left.undefined()) undefined(left);
      if (right.undefined()) undefined(right);
      const int order = compare(left, right);
      result = symbol == "<" ? order < 0 : symbol == "<=" ? order <= 0 : symbol == ">" ? order > 0 : order >= 0;
    }
    if (!result) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::arguments(const Expression& expression, const ScopePointer& scope) {
  Arguments result;
  for (size_t i = 1; i < expression.parts.size(); ++i) {
    const Expression& part = *expression.parts[i];
    if (part.kind != Kind::kSpread) {
      result.positional.push_back(evaluate(part, scope));
      continue;
    }
    for (Value& item : items_of(evaluate(*part.parts[0], scope))) result.positional.push_back(std::move(item));
  }
  for (const auto& [name, value] : expression.named) {
    Value given = evaluate(*value, scope);
    if (name != "**") {
      result.named.emplace_back(name, std::move(given));
      continue;
    }
    require(given.dictionary() != nullptr, "the argument after ** must be a mapping, found {}", given.type_name());
    for (const auto& [key, item] : given.dictionary()->items) {
      require(key.text() != nullptr, "keywords must be strings, found {}", key.type_name());
      result.named.emplace_back(*key.text(), item);
    }
  }
  return result;
}

Value Interpreter::call(const Expression& expression, const ScopePointer& scope, const Value* caller) {
  Value callee = evaluate(*expression.parts[0], scope);
  if (expression.parts[0]->kind == Kind::kName && expression.parts[0]->name == "loop")
    if (Value again = lookup(kLoopCall, scope); !again.undefined()) callee = std::move(again);
  if (callee.undefined()) undefined(callee);
  require(callee.function() != nullptr, "'{}' object is not callable", callee.type_name());
  Arguments given = arguments(expression, scope);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  return (*callee.function())(given);
}

List Interpreter::items_of(const Value& value) {
  if (value.undefined()) return {};
  if (const auto* sequence = value.sequence()) {
    spend(sequence->items.size());
    return sequence->items;
  }
  List items;
  if (const auto* text = value.text()) {
    spend(text->size());
    for (size_t i = 0; i < text->size();) {
      const size_t begin = i;
      text::next_character(*text, i);
      items.emplace_back(text->substr(begin, i - begin));
    }
    return items;
  }
  const auto* dictionary = value.dictionary();
  require(dictionary != nullptr, "'{}' object is not iterable", value.type_name());
  spend(dictionary->items.size());
  for (const auto& [key, item] : dictionary->items) items.push_back(key);
  return items;
}

Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.undefined()) undefined(value);
  if (const auto* dictionary = value.dictionary(); dictionary == nullptr || !dictionary->name_space) {
    // One that is there, or must not be called.
    if (Value method = find_method(*this, value, name); !method.undefined() || !method.undefined_name().empty())
      return method;
  }
  if (const auto* dictionary = value.dictionary())
    if (const Value* found = dictionary->find(Value(name))) return *found;
  return Undefined{fmt::format("'{} object' has no attribute '{}'", value.type_name(), name)};
}

Value Interpreter::subscript(const Value& value, const Value& key) {
  if (value.undefined()) undefined(value);
  int64_t number = 0;
  if (const auto* sequence = value.sequence(); sequence != nullptr && key.as_integer(number)) {
    const auto count = static_cast<int64_t>(sequence->items.size());
    if (number < 0) number += count;
    if (number >= 0 && number < count) return sequence->items[static_cast<size_t>(number)];
    return Undefined{"'list object' has no element " + to_text(key)};
  }
  if (value.text() != nullptr && key.as_integer(number)) {
    const List items = items_of(value);
    const auto count = static_cast<int64_t>(items.size());
    if (number < 0) number += count;
    if (number >= 0 && number < count) return items[static_cast<size_t>(number)];
    return Undefined{"'str object' has no element " + to_text(key)};
  }
  if (const auto* dictionary = value.dictionary())
    if (const Value* found = dictionary->find(key)) return *found;
  if (const auto* name = key.text()) {
    if (Value method = find_method(*this, value, *name); !method.undefined() || !method.undefined_name().empty())
      return method;
  }
  return Undefined{fmt::format("'{} object' has no attribute '{}'", value.type_name(), to_text(key))};
}

}  // namespace transom::jinja
