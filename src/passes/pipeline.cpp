// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

namespace transom {

Graph run_passes(Graph graph, const PassOptions& options) {
  const auto step = [&](std::string_view name, Graph next) {
    graph = std::move(next);
#ifndef NDEBUG
    verify(graph);
#endif
    if (options.observe) options.observe(name, graph);
  };
  if (options.observe) options.observe("trace", graph);
  // Common subexpressions are joined while composites are still whole: what gelu and its gradient share is cheaper to
  // compute twice than to keep.
  step("simplify", simplify(graph));
  step("lower_composites", lower_composites(graph, options.claims));
  static const Operation& fusion = find_operation("fusion");
  Node probe;
  probe.operation = &fusion;
  if (options.claims(probe)) step("fuse_elementwise", fuse_elementwise(graph));
  step("schedule", schedule(graph));
  return graph;
}

}  // namespace transom
