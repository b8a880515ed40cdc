// SPDX-License-Identifier: Apache-2.0
// Recurrences of tokens of any texts, whose states lie in rows of a pool: the tokens of a pass one after the other, so
// that a token's bits do not depend on what else is in the pass.
#include <algorithm>

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/recurrence/paged_rows.h"
#include "cpu/recurrence/recurrence.h"
#include "cpu/vector/scan.h"

namespace transom::cpu {
namespace {

struct PagedScan {
  PagedRows places;
  int64_t H, P, G, S, rates;

  explicit PagedScan(const Node& node)
      : places{node.input(0).shape[0], node.input(5).shape[0], 0, 6},
        H(node.input(0).shape[1]),
        P(node.input(0).shape[2]),
        G(node.input(3).shape[1]),
        S(node.input(3).shape[2]),
        rates(node.input(2).shape[1]) {
    places.width = H * P * S;
  }

  void run(const Arguments& arguments) const {
    places.expect_inside(arguments);
    places.copy_pool(arguments, 5);
    const ScanKernels& kernels = scan_kernels();
    const float *x = arguments.input<float>(0), *dt = arguments.input<float>(1), *a = arguments.input<float>(2),
                *b = arguments.input<float>(3), *c = arguments.input<float>(4);
    auto* y = arguments.output<float>(1);
    const auto size = [](int64_t value) { return static_cast<size_t>(value); };
    const int64_t numbers = P * S, some = scan_heads_together(numbers), slices = (H + some - 1) / some;
    parallel_for(size(slices), [&](size_t task) {
      const int64_t begin = static_cast<int64_t>(task) * some, end = std::min(begin + some, H);
      Scratch scratch(Scratch::bytes_of<float>(S) + Scratch::bytes_of<float>((end - begin) * numbers));
      auto* decays = scratch.take<float>(S);
      auto* nowhere = scratch.take<float>((end - begin) * numbers);
      for (int64_t n = 0; n < places.tokens; ++n) {
        float* state = places.state(arguments, n, begin * numbers, end * numbers, nowhere);
        for (int64_t h = begin; h < end; ++h) {
          const int64_t bc = (n * G + h / (H / G)) * S, at = n * H + h;
          kernels.token({a + h * rates, size(rates), size(P), size(S)}, decays, state + (h - begin) * numbers,
                        x + at * P, dt[at], b + bc, c + bc, y + at * P);
        }
      }
    });
  }
};

struct PagedConvolution {
  PagedRows places;
  int64_t C, K;

  explicit PagedConvolution(const Node& node)
      : places{node.input(0).shape[0], node.input(2).shape[0], 0, 3},
        C(node.input(0).shape[1]),
        K(node.input(1).shape[1]) {
    places.width = (K - 1) * C;
  }

  void run(const Arguments& arguments) const {
    places.expect_inside(arguments);
    places.copy_pool(arguments, 2);
    constexpr int64_t kChannels = 256;
    parallel_for(static_cast<size_t>((C + kChannels - 1) / kChannels), [&](size_t task) {
      const int64_t begin = static_cast<int64_t>(task) * kChannels, count = std::min(kChannels, C - begin);
      Scratch scratch(Scratch::bytes_of<float>(K * count));
      auto* window = scratch.take<float>(K * count);
      for (int64_t n = 0; n < places.tokens; ++n) run_token(arguments, n, begin, count, window);
    });
  }

  // The channels [begin, begin + count) of token n; the window is [K, count], the newest input behind.
  void run_token(const Arguments& arguments, int64_t n, int64_t begin, int64_t count, float* window) const {
    const int64_t from = arguments.input<int64_t>(3)[n], to = arguments.input<int64_t>(4)[n];
    const float *x = arguments.input<float>(0) + n * C + begin, *weight = arguments.input<float>(1) + begin * K;
    auto *pool = arguments.output<float>(0), *y = arguments.output<float>(1) + n * C + begin;
    for (int64_t k = 0; k < K - 1; ++k) {
      if (from < 0) std::fill_n(window + k * count, count, 0.0f);
      else std::copy_n(pool + from * places.width + k * C + begin, count, window + k * count);
    }
    std::copy_n(x, count, window + (K - 1) * count);
    for (int64_t i = 0; i < count; ++i) y[i] = window[i] * weight[i * K];
    for (int64_t k = 1; k < K; ++k)
      for (int64_t i = 0; i < count; ++i) y[i] += window[k * count + i] * weight[i * K + k];
    if (to < 0 || to >= places.rows) return;
    for (int64_t k = 0; k < K - 1; ++k)
      std::copy_n(window + (k + 1) * count, count, pool + to * places.width + k * C + begin);
  }
};

Kernel make_paged_scan(const Node& node) {
  const PagedScan scan(node);
  return {"scan of states in a pool", [scan](const Arguments& arguments) { scan.run(arguments); }};
}

Kernel make_paged_convolution(const Node& node) {
  const PagedConvolution convolution(node);
  return {"convolution of inputs in a pool", [convolution](const Arguments& arguments) { convolution.run(arguments); }};
}

bool claims_paged_scan(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() == 8 && is_scan_of_floats(inputs, 6);
}
bool claims_paged_convolution(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() == 5 && is_scan_of_floats(inputs, 3);
}

}  // namespace

void add_paged_state_kernels(KernelTable& table) {
  table["paged_selective_scan"] = {make_paged_scan, claims_paged_scan};
  table["paged_convolution"] = {make_paged_convolution, claims_paged_convolution};
}

}  // namespace transom::cpu
