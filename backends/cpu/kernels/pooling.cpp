// SPDX-License-Identifier: Apache-2.0
// max_pool and sum_pool of f32, channels first or last. Taps are joined in the order of the decomposition, along the
// last spatial axis first, so that sums have its bits; what lies in the padding takes part with its value.
#include <algorithm>
#include <limits>
#include <memory>

#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();  // padding of max_pool

// Up to three spatial axes, the missing ones of extent 1 in front. `inner` neighbours in memory share their window.
struct Pooling {
  int64_t outer, inner;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, window[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, low[3] = {0, 0, 0};
};

// A value that is larger or NaN takes the place of one before it; kMax of (from, to) does the same.
template <bool maximum>
void join(float& to, float from) {
  if constexpr (maximum) to = (from > to) | (from != from) ? from : to;
  else to += from;
}

template <bool maximum>
void join(float* to, const float* from, int64_t n) {
  const VectorKernels& kernels = vector_kernels();
  kernels.binary[maximum ? kMax : kAdd][kF32](to, from, to, nullptr, static_cast<size_t>(n));
}

// A line of the result, [out[2], inner], from the lines of x that its windows see.
template <bool maximum>
class Lines {
 public:
  Lines(const Pooling& p, float* scratch) : p_(p), scratch_(scratch) {}

  // The result at places[0 .. 1] of the first axes; `axis`: the first of those that are not yet in `x`. Null: padding.
  void run(const float* x, const int64_t* places, size_t axis, float* to) const {
    if (axis == 2) return run_line(x, to);
    const int64_t step = p_.inner * p_.in[2] * (axis == 0 ? p_.in[1] : 1), count = p_.out[2] * p_.inner;
    const int64_t first = places[axis] * p_.stride[axis] - p_.low[axis];
    float* next = scratch_ + static_cast<int64_t>(axis) * count;
    for (int64_t tap = 0; tap < p_.window[axis]; ++tap) {
      const int64_t at = first + tap;
      const float* from = x && at >= 0 && at < p_.in[axis] ? x + at * step : nullptr;
      run(from, places, axis + 1, tap ? next : to);
      if (tap) join<maximum>(to, next, count);
    }
  }

 private:
  void run_line(const float* x, float* to) const {
    for (int64_t tap = 0; tap < p_.window[2]; ++tap) {
      // Results [begin, end) see a value of x, the others the padding.
      const int64_t shift = p_.low[2] - tap, stride = p_.stride[2], inner = p_.inner, out = p_.out[2];
      const int64_t begin = x ? std::clamp<int64_t>((shift + stride - 1) / stride, 0, out) : out;
      const int64_t reach = p_.in[2] - 1 + shift;
      const int64_t end = !x ? out : reach < 0 ? begin : std::clamp<int64_t>(reach / stride + 1, begin, out);
      pad(to, 0, begin, tap);
      if (!x) continue;
      const float* from = x + (begin * stride - shift) * inner;
      if (inner == 1) {
        float* line = to + begin;
        for (int64_t i = 0; i < end - begin; ++i) join_one(line[i], from[i * stride], tap);
      } else {
        for (int64_t i = begin; i < end; ++i, from += stride * inner) {
          if (tap) join<maximum>(to + i * inner, from, inner);
          else std::copy_n(from, inner, to + i * inner);
        }
      }
      pad(to, end, out, tap);
    }
  }

  void pad(float* to, int64_t begin, int64_t end, int64_t tap) const {
    for (int64_t i = begin * p_.inner; i < end * p_.inner; ++i) join_one(to[i], maximum ? kLowest : 0.0f, tap);
  }

  static void join_one(float& to, float from, int64_t tap) {
    if (!tap) to = from;
    else join<maximum>(to, from);
  }

  const Pooling& p_;
  float* scratch_;  // two lines
};

template <bool maximum>
void run_pooling(const Pooling& p, const float* x, float* y) {
  const int64_t rows = p.outer * p.out[0] * p.out[1], line = p.out[2] * p.inner;
  const int64_t work = line * p.window[0] * p.window[1] * p.window[2];
  parallel_ranges(rows, std::max<int64_t>((1 << 15) / (work + 1), 1), [&](int64_t begin, int64_t end) {
    const Lines<maximum> lines(p,
                               reinterpret_cast<float*>(thread_scratch(static_cast<size_t>(2 * line) * sizeof(float))));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t places[2] = {row / p.out[1] % p.out[0], row % p.out[1]};
      const float* image = x + row / p.out[1] / p.out[0] * (p.in[0] * p.in[1] * p.in[2] * p.inner);
      lines.run(image, places, 0, y + row * line);
    }
  });
}

template <bool maximum>
Kernel make_pooling(const Node& node) {
  const Shape window = node.integers("window"), strides = node.integers("strides"), low = node.integers("low"),
              high = node.integers("high");
  const Shape &x = node.input(0).shape, &y = node.output().shape;
  const size_t axes = window.size();
  const bool last = node.integer("channels_last", 0) != 0;
  const size_t first = last ? 1 : 2;
  if (axes < 1 || axes > 3 || strides.size() != axes || low.size() != axes || high.size() != axes ||
      x.size() != axes + 2 || y.size() != axes + 2 || x[0] != y[0] || (last ? x.back() != y.back() : x[1] != y[1]) ||
      node.input(0).dtype != TRANSOM_FLOAT32 || node.output().dtype != TRANSOM_FLOAT32)
    fail(TRANSOM_INVALID_ARGUMENT, "expected x and y of one to three spatial axes in f32, found {} and {}",
         to_string(node.input(0)), to_string(node.output()));
  Pooling p{last ? x[0] : x[0] * x[1], last ? x.back() : 1};
  for (size_t i = 0; i < axes; ++i) {
    const size_t to = 3 - axes + i;
    p.in[to] = x[first + i];
    p.out[to] = y[first + i];
    p.window[to] = window[i];
    p.stride[to] = strides[i];
    p.low[to] = low[i];
    if (window[i] < 1 || strides[i] < 1 || low[i] < 0 || high[i] < 0 ||
        p.out[to] != (p.in[to] + low[i] + high[i] - window[i]) / strides[i] + 1)
      fail(TRANSOM_INVALID_ARGUMENT, "the extents of {} and {} are not those of one pooling", to_string(node.input(0)),
           to_string(node.output()));
  }
  return {last ? "windows, channels last" : "windows", [p](const Arguments& arguments) {
            run_pooling<maximum>(p, arguments.input<float>(0), arguments.output<float>());
          }};
}

}  // namespace

void add_pooling_kernels(KernelTable& table) {
  table["max_pool"] = {make_pooling<true>, claims_one_f32};
  table["sum_pool"] = {make_pooling<false>, claims_one_f32};
}

}  // namespace transom::cpu
