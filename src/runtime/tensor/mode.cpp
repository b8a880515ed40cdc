// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/tensor/mode_scope.h"

namespace transom {
namespace {

std::atomic<Mode> process_mode{Mode::kLazy};
thread_local std::optional<Mode> own_mode;

void run_at_once(const std::shared_ptr<Node>& node) {
  if (mode() == Mode::kEager && !is_input(*node)) eval(outputs_of(node));
}

// From the first wish for eager mode on, each new node asks for its thread's mode.
void observe(Mode mode) {
  if (mode == Mode::kEager) set_node_observer(run_at_once);
}

}  // namespace

Mode mode() { return own_mode ? *own_mode : process_mode.load(std::memory_order_relaxed); }

void set_mode(Mode mode) {
  if (own_mode) own_mode = mode;
  else process_mode.store(mode, std::memory_order_relaxed);
  observe(mode);
}

Mode mode_named(std::string_view name) {
  if (name == "lazy") return Mode::kLazy;
  if (name == "eager") return Mode::kEager;
  if (name == "compile") return Mode::kCompile;
  if (name == "graph") return Mode::kGraph;
  fail(ErrorKind::kUsage, "--mode: expected lazy, eager, compile or graph, found {}", quoted(name));
}

ModeScope::ModeScope(Mode mode) : before_(own_mode) {
  own_mode = mode;
  observe(mode);
}
ModeScope::~ModeScope() { own_mode = before_; }

}  // namespace transom
