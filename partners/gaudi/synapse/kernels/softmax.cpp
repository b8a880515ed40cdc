// SPDX-License-Identifier: Apache-2.0
// Softmax, its logarithm and their gradients along one dim; in f32, rounded once.
#include <algorithm>

#include "elementwise.h"
#include "rows.h"

namespace synapse_emulator {
namespace {

uint32_t mask_of(const Node& node) {
  const auto params = params_of<SoftmaxParams>(node);
  return 1u << axis_of(node, params.dim, node.input(0).sizes.rank);
}

template <size_t kInputs>
void check_softmax(const Node& node) {
  require_counts(node, kInputs, kInputs, 1, 1);
  for (size_t i = 0; i < kInputs; ++i) {
    require_type(node, node.input(i), node.type, "an input");
    require_sizes(node, node.input(i), node.output(0).sizes, "an input");
  }
  require_type(node, node.output(0), node.type, "the output");
  mask_of(node);
}

// f(a, b, count): computes a row in place in a.
template <typename F>
void for_rows(const Node& node, const F& f) {
  const Reduction loop(node.output(0).sizes, mask_of(node));
  parallel_for(loop.outputs(), std::max<int64_t>(1, 4096 / std::max<int64_t>(1, loop.count())),
               [&](int64_t from, int64_t to) {
                 std::vector<float> a(static_cast<size_t>(loop.count())), b(a);
                 for (int64_t row = from; row < to; ++row) {
                   loop.gather<float>(node.input(0), row, a.data());
                   if (node.in.size() > 1) loop.gather<float>(node.input(1), row, b.data());
                   f(a, b);
                   loop.scatter<float>(node.output(0), row, a.data());
                 }
               });
}

float largest_of(const std::vector<float>& row) {
  float largest = -INFINITY;
  for (const float x : row) largest = std::isnan(x) || x > largest ? x : largest;
  return largest;
}

void run_softmax(const Node& node) {
  for_rows(node, [](std::vector<float>& x, const std::vector<float>&) {
    const float largest = largest_of(x);
    float sum = 0;
    for (float& value : x) sum += value = std::exp(value - largest);
    for (float& value : x) value /= sum;
  });
}
void run_log_softmax(const Node& node) {
  for_rows(node, [](std::vector<float>& x, const std::vector<float>&) {
    const float largest = largest_of(x);
    float sum = 0;
    for (const float value : x) sum += std::exp(value - largest);
    const float log = std::log(sum);
    for (float& value : x) value = value - largest - log;
  });
}
// {y, dy} -> dx
void run_softmax_gradient(const Node& node) {
  for_rows(node, [](std::vector<float>& y, const std::vector<float>& dy) {
    float dot = 0;
    for (size_t i = 0; i < y.size(); ++i) dot += y[i] * dy[i];
    for (size_t i = 0; i < y.size(); ++i) y[i] *= dy[i] - dot;
  });
}
// {dy, y} -> dx
void run_log_softmax_gradient(const Node& node) {
  for_rows(node, [](std::vector<float>& dy, const std::vector<float>& y) {
    float sum = 0;
    for (const float value : dy) sum += value;
    for (size_t i = 0; i < dy.size(); ++i) dy[i] -= std::exp(y[i]) * sum;
  });
}

double softmax_flops(const Node& node) { return 15.0 * static_cast<double>(node.output(0).elements()); }

}  // namespace

void add_softmax(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, kFloats, check, run, softmax_flops, false});
  };
  add("softmax_fwd", check_softmax<1>, run_softmax);
  add("softmax_bwd", check_softmax<2>, run_softmax_gradient);
  add("logsoftmax_fwd", check_softmax<1>, run_log_softmax);
  add("logsoftmax_bwd_data", check_softmax<2>, run_log_softmax_gradient);
}

}  // namespace synapse_emulator
