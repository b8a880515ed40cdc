// SPDX-License-Identifier: Apache-2.0
// The selective scan of rows of tokens, and its gradient. Letters: B rows, T tokens, H heads of P numbers, S numbers of
// a state for each, G groups of heads.
#include <algorithm>
#include <cstring>

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/recurrence/recurrence.h"
#include "cpu/vector/scan.h"

namespace transom::cpu {
namespace {

struct ScanPlan {
  int64_t B, T, H, P, G, S, rates;

  explicit ScanPlan(const Node& node)
      : B(node.input(0).shape[0]),
        T(node.input(0).shape[1]),
        H(node.input(0).shape[2]),
        P(node.input(0).shape[3]),
        G(node.input(3).shape[2]),
        S(node.input(3).shape[3]),
        rates(node.input(2).shape[1]) {}

  int64_t numbers() const { return P * S; }  // of a head's state
  int64_t group() const { return H / G; }
  ScanHead head(const float* a, int64_t h) const {
    const auto size = [](int64_t x) { return static_cast<size_t>(x); };
    return {a + h * rates, size(rates), size(P), size(S)};
  }
};

// A token of a head.
struct ScanToken {
  int64_t dt, x, bc;  // where its numbers begin
  ScanToken(const ScanPlan& plan, int64_t row, int64_t token, int64_t head)
      : dt((row * plan.T + token) * plan.H + head),
        x(dt * plan.P),
        bc(((row * plan.T + token) * plan.G + head / plan.group()) * plan.S) {}
};

struct SelectiveScan {
  ScanPlan plan;

  void run(const Arguments& arguments) const {
    const ScanKernels& kernels = scan_kernels();
    const float *x = arguments.input<float>(0), *dt = arguments.input<float>(1), *a = arguments.input<float>(2),
                *b = arguments.input<float>(3), *c = arguments.input<float>(4), *first = arguments.input<float>(5);
    float *y = arguments.output<float>(0), *last = arguments.output<float>(1);
    const int64_t some = scan_heads_together(plan.numbers()), slices = (plan.H + some - 1) / some;
    parallel_for(static_cast<size_t>(plan.B * slices), [&](size_t task) {
      const int64_t row = static_cast<int64_t>(task) / slices, begin = static_cast<int64_t>(task) % slices * some;
      const int64_t end = std::min(begin + some, plan.H), from = row * plan.H * plan.numbers();
      Scratch scratch(Scratch::bytes_of<float>(plan.S));
      float* decays = scratch.take<float>(plan.S);
      std::copy_n(first + from + begin * plan.numbers(), (end - begin) * plan.numbers(),
                  last + from + begin * plan.numbers());
      for (int64_t t = 0; t < plan.T; ++t)
        for (int64_t h = begin; h < end; ++h) {
          const ScanToken token(plan, row, t, h);
          kernels.token(plan.head(a, h), decays, last + from + h * plan.numbers(), x + token.x, dt[token.dt],
                        b + token.bc, c + token.bc, y + token.x);
        }
    });
  }
};

// Tasks are parts of the heads of a group, whose number does not depend on that of the threads. Of each part db and dc
// are summed by themselves, then over the parts. States are kept at the beginning of each stretch of tokens, and made
// again within it.
struct SelectiveScanGradient {
  ScanPlan plan;
  static constexpr int64_t kParts = 32, kStretch = 16;

  int64_t parts() const { return std::clamp<int64_t>(kParts / plan.G, 1, plan.group()); }  // of a group
  int64_t stretches() const { return (plan.T + kStretch - 1) / kStretch; }
  int64_t of_part() const { return 2 * plan.T * plan.S; }  // numbers of db and dc
  int64_t tasks() const { return plan.B * plan.G * parts(); }
  size_t scratch_bytes() const {
    return static_cast<size_t>(tasks() * of_part() + plan.B * plan.H * plan.rates) * sizeof(float);
  }

  struct Memory {
    float *decays, *begins, *states, *cotangent;
  };

  // Heads one after the other: few states at a time.
  void run_head(const Arguments& arguments, const Memory& memory, int64_t row, int64_t h, float* db, float* dc,
                float* da) const {
    const ScanKernels& kernels = scan_kernels();
    const float *x = arguments.input<float>(0), *dt = arguments.input<float>(1), *b = arguments.input<float>(3),
                *c = arguments.input<float>(4), *dy = arguments.input<float>(6);
    const ScanHead head = plan.head(arguments.input<float>(2), h);
    const int64_t n = plan.numbers(), at = (row * plan.H + h) * n;
    const auto go_on = [&](float* state, int64_t t) {
      const ScanToken token(plan, row, t, h);
      kernels.token(head, memory.decays, state, x + token.x, dt[token.dt], b + token.bc, c + token.bc, nullptr);
    };
    std::copy_n(arguments.input<float>(5) + at, n, memory.states);
    for (int64_t t = 0; t < plan.T; ++t) {
      if (t % kStretch == 0) std::copy_n(memory.states, n, memory.begins + t / kStretch * n);
      go_on(memory.states, t);
    }
    std::copy_n(arguments.input<float>(7) + at, n, memory.cotangent);
    for (int64_t stretch = stretches() - 1; stretch >= 0; --stretch) {
      const int64_t begin = stretch * kStretch, end = std::min(begin + kStretch, plan.T);
      std::copy_n(memory.begins + stretch * n, n, memory.states);
      for (int64_t t = begin; t < end; ++t) {
        float* next = memory.states + (t - begin + 1) * n;
        std::copy_n(next - n, n, next);
        go_on(next, t);
      }
      for (int64_t t = end - 1; t >= begin; --t) {
        const ScanToken token(plan, row, t, h);
        const float* before = memory.states + (t - begin) * n;
        kernels.gradient(head, memory.decays, memory.cotangent, before, before + n, x + token.x, dt[token.dt],
                         b + token.bc, c + token.bc, dy + token.x, arguments.output<float>(0) + token.x,
                         arguments.output<float>(1) + token.dt, da, db + t * plan.S, dc + t * plan.S);
      }
    }
    std::copy_n(memory.cotangent, n, arguments.output<float>(5) + at);
  }

  void run(const Arguments& arguments) const {
    auto* sums = reinterpret_cast<float*>(arguments.scratch);
    float* rates = sums + tasks() * of_part();  // [B, H, rates]
    const int64_t count = parts(), n = plan.numbers();
    parallel_for(static_cast<size_t>(tasks()), [&](size_t number) {
      const auto task = static_cast<int64_t>(number);
      const int64_t part = task % count, group = task / count % plan.G, row = task / count / plan.G;
      Scratch scratch(Scratch::bytes_of<float>(plan.S) + Scratch::bytes_of<float>(stretches() * n) +
                      Scratch::bytes_of<float>((kStretch + 1) * n) + Scratch::bytes_of<float>(n));
      Memory memory{};
      memory.decays = scratch.take<float>(plan.S), memory.begins = scratch.take<float>(stretches() * n);
      memory.states = scratch.take<float>((kStretch + 1) * n), memory.cotangent = scratch.take<float>(n);
      float* db = sums + task * of_part();
      std::fill_n(db, of_part(), 0.0f);
      const int64_t heads = plan.group(), begin = heads * part / count, end = heads * (part + 1) / count;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t h = group * heads + i;
        float* da = rates + (row * plan.H + h) * plan.rates;
        std::fill_n(da, plan.rates, 0.0f);
        run_head(arguments, memory, row, h, db, db + plan.T * plan.S, da);
      }
    });
    parallel_for(static_cast<size_t>(plan.B * plan.T), [&](size_t number) {
      const int64_t row = static_cast<int64_t>(number) / plan.T, t = static_cast<int64_t>(number) % plan.T;
      for (const int64_t which : {0, 1})
        for (int64_t group = 0; group < plan.G; ++group) {
          float* to =
              arguments.output<float>(static_cast<size_t>(3 + which)) + ((row * plan.T + t) * plan.G + group) * plan.S;
          std::fill_n(to, plan.S, 0.0f);
          for (int64_t part = 0; part < count; ++part) {
            const float* from =
                sums + ((row * plan.G + group) * count + part) * of_part() + (which * plan.T + t) * plan.S;
            for (int64_t s = 0; s < plan.S; ++s) to[s] += from[s];
          }
        }
    });
    float* da = arguments.output<float>(2);
    for (int64_t i = 0; i < plan.H * plan.rates; ++i) {
      da[i] = 0;
      for (int64_t row = 0; row < plan.B; ++row) da[i] += rates[row * plan.H * plan.rates + i];
    }
  }
};

Kernel make_selective_scan(const Node& node) {
  const SelectiveScan scan{ScanPlan(node)};
  return {"scan token by token", [scan](const Arguments& arguments) { scan.run(arguments); }};
}

Kernel make_selective_scan_gradient(const Node& node) {
  const SelectiveScanGradient gradient{ScanPlan(node)};
  Kernel kernel{"scan back token by token", [gradient](const Arguments& arguments) { gradient.run(arguments); }};
  kernel.scratch_bytes = gradient.scratch_bytes();
  return kernel;
}

bool claims_scan(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return is_scan_of_floats(inputs, inputs.size());
}

}  // namespace

void add_scan_kernels(KernelTable& table) {
  table["selective_scan"] = {make_selective_scan, claims_scan};
  table["selective_scan_gradient"] = {make_selective_scan_gradient, claims_scan};
}

}  // namespace transom::cpu
