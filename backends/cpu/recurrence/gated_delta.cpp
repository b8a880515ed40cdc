// SPDX-License-Identifier: Apache-2.0
// The gated delta rule of rows of tokens and of tokens of any texts, one token after the other: a token's bits do not
// depend on what else is in the pass. Letters: H heads of P numbers, S numbers of a state for each, G groups of heads.
#include <algorithm>
#include <cmath>

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/recurrence/paged_rows.h"
#include "cpu/recurrence/recurrence.h"
#include "cpu/vector/scan.h"

namespace transom::cpu {
namespace {

// Inputs v [tokens..., H, P], rates, beta [tokens..., H], k and q [tokens..., G, S].
struct DeltaHeads {
  int64_t H, P, G, S;

  DeltaHeads(const Node& node, size_t axes)
      : H(node.input(0).shape[axes]),
        P(node.input(0).shape[axes + 1]),
        G(node.input(3).shape[axes]),
        S(node.input(3).shape[axes + 1]) {}

  int64_t numbers() const { return P * S; }  // of a head's state

  // `token` counts those of all rows.
  void run(const Arguments& arguments, float* state, float* y, int64_t token, int64_t h) const {
    const int64_t at = token * H + h, key = (token * G + h / (H / G)) * S;
    scan_kernels().delta(static_cast<size_t>(P), static_cast<size_t>(S), state, arguments.input<float>(0) + at * P,
                         std::exp(arguments.input<float>(1)[at]), arguments.input<float>(2)[at],
                         arguments.input<float>(3) + key, arguments.input<float>(4) + key, y + at * P);
  }
};

struct DeltaRule {
  DeltaHeads heads;
  int64_t B, T;

  explicit DeltaRule(const Node& node) : heads(node, 2), B(node.input(0).shape[0]), T(node.input(0).shape[1]) {}

  void run(const Arguments& arguments) const {
    const int64_t n = heads.numbers();
    const auto* first = arguments.input<float>(5);
    auto *y = arguments.output<float>(0), *last = arguments.output<float>(1);
    parallel_for(static_cast<size_t>(B * heads.H), [&](size_t task) {
      const int64_t row = static_cast<int64_t>(task) / heads.H, h = static_cast<int64_t>(task) % heads.H;
      float* state = last + static_cast<int64_t>(task) * n;
      std::copy_n(first + static_cast<int64_t>(task) * n, n, state);
      for (int64_t t = 0; t < T; ++t) heads.run(arguments, state, y, row * T + t, h);
    });
  }
};

struct PagedDeltaRule {
  DeltaHeads heads;
  PagedRows places;

  explicit PagedDeltaRule(const Node& node)
      : heads(node, 1), places{node.input(0).shape[0], node.input(5).shape[0], heads.H * heads.numbers(), 6} {}

  void run(const Arguments& arguments) const {
    places.expect_inside(arguments);
    places.copy_pool(arguments, 5);
    const int64_t n = heads.numbers();
    auto* y = arguments.output<float>(1);
    parallel_for(static_cast<size_t>(heads.H), [&](size_t task) {
      const auto h = static_cast<int64_t>(task);
      Scratch scratch(Scratch::bytes_of<float>(n));
      auto* nowhere = scratch.take<float>(n);
      for (int64_t token = 0; token < places.tokens; ++token)
        heads.run(arguments, places.state(arguments, token, h * n, (h + 1) * n, nowhere), y, token, h);
    });
  }
};

Kernel make_delta_rule(const Node& node) {
  const DeltaRule rule(node);
  return {"delta rule token by token", [rule](const Arguments& arguments) { rule.run(arguments); }};
}

Kernel make_paged_delta_rule(const Node& node) {
  const PagedDeltaRule rule(node);
  return {"delta rule of states in a pool", [rule](const Arguments& arguments) { rule.run(arguments); }};
}

bool claims_delta_rule(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() == 6 && is_scan_of_floats(inputs, 6);
}
bool claims_paged_delta_rule(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() == 8 && is_scan_of_floats(inputs, 6);
}

}  // namespace

void add_delta_kernels(KernelTable& table) {
  table["gated_delta_rule"] = {make_delta_rule, claims_delta_rule};
  table["paged_gated_delta_rule"] = {make_paged_delta_rule, claims_paged_delta_rule};
}

}  // namespace transom::cpu
