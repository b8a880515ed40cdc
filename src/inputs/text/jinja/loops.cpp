// SPDX-License-Identifier: Apache-2.0
// for, with its filter, its `loop` and its calls of itself.
#include "base/error.h"
#include "inputs/text/jinja/interpreter.h"

namespace transom::jinja {

Interpreter::Flow Interpreter::loop(const Statement& statement, const ScopePointer& scope, std::string& out) {
  if (statement.marked) scopes_.push_back(scope);
  return loop_over(statement, items_of(evaluate(*statement.value, scope)), scope, 0, out);
}

Interpreter::Flow Interpreter::loop_over(const Statement& statement, List items, const ScopePointer& scope, int depth,
                                         std::string& out) {
  if (statement.filter) {
    List kept;
    for (Value& item : items) {
      auto trial = std::make_shared<Scope>(Scope{scope, {}});
      unpack(statement.names, item, *trial);
      if (evaluate(*statement.filter, trial).truth()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return statement.bodies.size() > 1 ? execute(statement.bodies[1], scope, out) : Flow::kOn;
  const auto count = static_cast<int64_t>(items.size());
  auto changed = std::make_shared<Value>();
  for (int64_t i = 0; i < count; ++i) {
    spend(1);
    auto inner = std::make_shared<Scope>(Scope{scope, {}});
    auto variables = std::make_shared<Dictionary>();
    const auto set = [&](const char* name, Value value) { variables->set(Value(name), std::move(value)); };
    set("index", i + 1), set("index0", i), set("revindex", count - i), set("revindex0", count - i - 1);
    set("first", i == 0), set("last", i + 1 == count), set("length", count);
    set("previtem", i > 0 ? items[static_cast<size_t>(i - 1)] : Value(Undefined{"there is no previous item"}));
    set("nextitem", i + 1 < count ? items[static_cast<size_t>(i + 1)] : Value(Undefined{"there is no next item"}));
    set("depth", depth + 1), set("depth0", depth);
    set("cycle", Function([i](Arguments& given) {
          require(!given.positional.empty(), "loop.cycle: expected items");
          return given.positional[static_cast<size_t>(i) % given.positional.size()];
        }));
    set("changed", Function([changed](Arguments& given) {
          const Value now(given.positional, true);
          const bool result = changed->undefined() || !equal(now, *changed);
          *changed = now;
          return Value(result);
        }));
    inner->variables["loop"] = Value(variables);
    if (statement.marked)
      inner->variables[kLoopCall] = Function([this, &statement, scope, depth](Arguments& given) {
        require(given.positional.size() == 1, "loop(): expected what to go through");
        std::string inside;
        loop_over(statement, items_of(given.positional[0]), scope, depth + 1, inside);
        return text(std::move(inside));
      });
    unpack(statement.names, items[static_cast<size_t>(i)], *inner);
    const Flow flow = execute(statement.bodies[0], inner, out);
    if (flow == Flow::kBreak) break;
  }
  return Flow::kOn;
}

}  // namespace transom::jinja
