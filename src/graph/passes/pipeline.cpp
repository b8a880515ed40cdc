// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/passes/place_on_host.h"

namespace transom {
namespace {

// In debug builds, and where TRANSOM_VERIFY is set to anything but 0.
bool verifies_each_pass() {
#ifndef NDEBUG
  return true;
#else
  const char* value = std::getenv("TRANSOM_VERIFY");
  return value && *value && std::string_view(value) != "0";
#endif
}

}  // namespace

void verify_pass(std::string_view name, const Graph& graph) {
  if (!verifies_each_pass()) return;
  try {
    verify(graph);
  } catch (const Error& error) {
    fail(ErrorKind::kInternal, "behind the pass {}: {}", name, error.what());
  }
}

Graph run_passes(Graph graph, const PassOptions& options) {
  const auto step = [&](std::string_view name, Graph next) {
    graph = std::move(next);
    verify_pass(name, graph);
    if (options.observe) options.observe(name, graph);
  };
  if (options.observe) options.observe("trace", graph);
  // Common subexpressions are joined while composites are still whole: what gelu and its gradient share is cheaper to
  // compute twice than to keep.
  step("simplify", simplify(graph));
  step("lower_composites", lower_composites(graph, options.supports));
  step("assign_layout", assign_layout(graph, options.supports));
  // Before anything is fused: a fusion holds nothing that the device does not run.
  if (options.runs) step("place_on_host", place_on_host(graph, options.runs));
  const auto supports_region = [&](const Operation& operation) {
    Node probe;
    probe.operation = &operation;
    return options.supports(probe);
  };
  if (supports_region(op::fusion)) step("fuse_elementwise", fuse_elementwise(graph));
  if (supports_region(op::row_fusion)) step("fuse_rows", fuse_rows(graph));
  step("schedule", schedule(graph));
  step("hoist_small_values", hoist_small_values(graph));
  return graph;
}

}  // namespace transom
