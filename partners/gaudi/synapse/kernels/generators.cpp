// SPDX-License-Identifier: Apache-2.0
// Kernels without tensor inputs: constants, ranges. Random kernels are refused: their streams are not documented.
#include <algorithm>

#include "elementwise.h"

namespace synapse_emulator {
namespace {

void check_constant(const Node& node) {
  require_counts(node, 0, 1, 1, 1);  // an input is the shape tensor of dynamic graphs
  require_type(node, node.output(0), node.type, "the output");
  params_of<ConstantParams>(node, {4, 8});
}
void run_constant(const Node& node) {
  const auto params = params_of<ConstantParams>(node, {4, 8});
  const Operand& out = node.output(0);
  constexpr int64_t kBlock = 1024;
  float floats[kBlock];
  int64_t integers[kBlock];
  std::fill(floats, floats + kBlock, params.value.f);
  std::fill(integers, integers + kBlock, params.value.i);
  for (int64_t begin = 0; begin < out.elements(); begin += kBlock) {
    const int64_t count = std::min(kBlock, out.elements() - begin);
    if (is_floating(node.type)) store<float>(out.type, out.data, begin, 1, count, floats);
    else store<int64_t>(out.type, out.data, begin, 1, count, integers);
  }
}

int64_t range_count(const Node& node) {
  const auto params = params_of<RangeParams>(node);
  double start = params.start.i, limit = params.limit.i, delta = params.delta.i;
  if (is_floating(node.type)) {
    start = params.start.f;
    limit = params.limit.f;
    delta = params.delta.f;
  }
  require(delta != 0, node, "the step is 0");
  const double count = std::ceil((limit - start) / delta);
  require(count < 0x1p46, node, "the range has ", count, " numbers");  // nor is it NaN
  return static_cast<int64_t>(std::max(0.0, count));
}
void check_range(const Node& node) {
  require_counts(node, 0, 1, 1, 1);
  require_type(node, node.output(0), node.type, "the output");
  require(node.output(0).sizes.rank == 1 && node.output(0).sizes[0] == range_count(node), node, "the output has sizes ",
          text_of(node.output(0).sizes), ", the range ", range_count(node), " numbers");
}
void run_range(const Node& node) {
  const auto params = params_of<RangeParams>(node);
  for (int64_t i = 0; i < node.output(0).elements(); ++i) {
    if (is_floating(node.type)) {
      const float value = params.start.f + static_cast<float>(i) * params.delta.f;
      store<float>(node.type, node.output(0).data, i, 1, 1, &value);
    } else {
      const int64_t value = params.start.i + i * params.delta.i;
      store<int64_t>(node.type, node.output(0).data, i, 1, 1, &value);
    }
  }
}

}  // namespace

void add_generators(KernelTable& table) {
  table.add({"constant", Engine::kTpc, kNumbers, check_constant, run_constant, nullptr, false, 0});
  table.add({"range", Engine::kTpc, kNumbers, check_range, run_range, nullptr, false, 0});
}

}  // namespace synapse_emulator
