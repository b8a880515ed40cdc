// SPDX-License-Identifier: Apache-2.0
// Reductions. Sums are kept in f32 in as many lanes as a TPC vector has, then added pairwise; integers in 64 bits.
#include <algorithm>
#include <limits>

#include "elementwise.h"
#include "kernels/movement/movement.h"
#include "rows.h"

namespace synapse_emulator {
namespace {

constexpr int64_t kLanes = 64;  // f32 in one vector of 256 bytes

struct Sum {
  static constexpr float kStart = 0;
  static constexpr int64_t kIntegerStart = 0;
  static float apply(float a, float b) { return a + b; }
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct SumOfSquares : Sum {};
struct Product {
  static constexpr float kStart = 1;
  static constexpr int64_t kIntegerStart = 1;
  static float apply(float a, float b) { return a * b; }
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct Maximum {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static constexpr int64_t kIntegerStart = std::numeric_limits<int64_t>::min();
  static float apply(float a, float b) { return std::isnan(b) || b > a ? b : a; }
  static int64_t apply(int64_t a, int64_t b) { return std::max(a, b); }
};
struct Minimum {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  static constexpr int64_t kIntegerStart = std::numeric_limits<int64_t>::max();
  static float apply(float a, float b) { return std::isnan(b) || b < a ? b : a; }
  static int64_t apply(int64_t a, int64_t b) { return std::min(a, b); }
};

// One bit for each reduced dim.
uint32_t mask_of(const Node& node, bool many) {
  const int rank = node.input(0).sizes.rank;
  if (!many) return 1u << axis_of(node, params_of<ReductionParams>(node).dim, rank);
  const auto params = params_of<ReductionMaskParams>(node);
  // The mask 0 means all.
  const uint32_t all = (1u << rank) - 1;
  require((params.dimMask & ~all) == 0, node, "mask ", params.dimMask, " of ", rank, " dims");
  return params.dimMask == 0 ? all : params.dimMask;
}

void check_result_sizes(const Node& node, uint32_t mask, bool keep, const Operand& output) {
  const Operand& in = node.input(0);
  Sizes kept, dropped;
  for (int dim = 0; dim < in.sizes.rank; ++dim) {
    const bool reduced = mask >> dim & 1;
    kept.size[static_cast<size_t>(kept.rank++)] = reduced ? 1 : in.sizes[dim];
    if (!reduced) dropped.size[static_cast<size_t>(dropped.rank++)] = in.sizes[dim];
  }
  if (dropped.rank == 0) {
    dropped.rank = 1;
    dropped.size[0] = 1;
  }
  require_sizes(node, output, keep ? kept : dropped, "the output");
}

template <bool kMany>
void check_reduction(const Node& node) {
  require_counts(node, 1, 1, 1, 2);  // a second output is the place of a maximum
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), node.type, "the output");
  const bool keep = !kMany || params_of<ReductionMaskParams>(node).keepDim;
  check_result_sizes(node, mask_of(node, kMany), keep, node.output(0));
  require(!node.has_output(1), node, "the second output is not emulated");
}

template <typename Op, typename Value>
void reduce(const Node& node, uint32_t mask, double scale) {
  const Operand& in = node.input(0);
  const Reduction loop(in.sizes, mask);
  constexpr Value start = [] {
    if constexpr (std::is_same_v<Value, float>) return Op::kStart;
    else return Op::kIntegerStart;
  }();
  parallel_for(loop.outputs(), std::max<int64_t>(1, 8192 / std::max<int64_t>(1, loop.count())),
               [&](int64_t from, int64_t to) {
                 std::vector<Value> values(static_cast<size_t>(loop.count()));
                 for (int64_t output = from; output < to; ++output) {
                   loop.gather<Value>(in, output, values.data());
                   Value lanes[kLanes];
                   std::fill(lanes, lanes + kLanes, start);
                   for (int64_t i = 0; i < loop.count(); ++i) {
                     Value value = values[static_cast<size_t>(i)];
                     if constexpr (std::is_same_v<Op, SumOfSquares>) value *= value;
                     lanes[i % kLanes] = Op::apply(lanes[i % kLanes], value);
                   }
                   for (int64_t width = kLanes / 2; width > 0; width /= 2)
                     for (int64_t i = 0; i < width; ++i) lanes[i] = Op::apply(lanes[i], lanes[i + width]);
                   Value result = lanes[0];
                   if (scale != 1) result = static_cast<Value>(static_cast<double>(result) * scale);
                   store<Value>(node.output(0).type, node.output(0).data, output, 1, 1, &result);
                 }
               });
}

template <typename Op, bool kMany, bool kMean>
void run_reduction(const Node& node) {
  const uint32_t mask = mask_of(node, kMany);
  double scale = 1;
  if (kMean) {
    int64_t count = 1;
    for (int dim = 0; dim < node.input(0).sizes.rank; ++dim)
      if (mask >> dim & 1) count *= node.input(0).sizes[dim];
    scale = 1.0 / static_cast<double>(count);
  }
  if (is_floating(node.type)) reduce<Op, float>(node, mask, scale);
  else reduce<Op, int64_t>(node, mask, scale);
}

// ---- argmax and argmin over one dim
template <bool kMany>
void check_argument(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), syn_type_int32, "the output");
  const uint32_t mask = mask_of(node, kMany);
  require(kMany || (mask & (mask - 1)) == 0, node, "one dim is searched");
  check_result_sizes(node, mask, !kMany || params_of<ReductionMaskParams>(node).keepDim, node.output(0));
}
template <bool kLargest, bool kMany>
void run_argument(const Node& node) {
  const Reduction loop(node.input(0).sizes, mask_of(node, kMany));
  std::vector<float> values(static_cast<size_t>(loop.count()));
  std::vector<int64_t> integers(static_cast<size_t>(loop.count()));
  const auto search = [](const auto& list) {
    size_t best = 0;
    for (size_t i = 1; i < list.size(); ++i) {
      const auto now = list[i], then = list[best];
      if (then != then) break;  // NaN is the first
      if (now != now || (kLargest ? now > then : now < then)) best = i;
    }
    return static_cast<int64_t>(best);
  };
  for (int64_t output = 0; output < loop.outputs(); ++output) {
    int64_t place;
    if (is_floating(node.type)) {
      loop.gather<float>(node.input(0), output, values.data());
      place = search(values);
    } else {
      loop.gather<int64_t>(node.input(0), output, integers.data());
      place = search(integers);
    }
    store<int64_t>(syn_type_int32, node.output(0).data, output, 1, 1, &place);
  }
}

double reduction_flops(const Node& node) { return static_cast<double>(node.input(0).elements()); }

}  // namespace

void add_reductions(KernelTable& table) {
  const Types types = {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_int32, syn_type_int16, syn_type_int8};
  const auto add = [&](const char* name, const Types& which, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, which, check, run, reduction_flops, false});
  };
  add("reduce_sum_fwd", types, check_reduction<false>, run_reduction<Sum, false, false>);
  add("reduce_mean_fwd", kFloats, check_reduction<false>, run_reduction<Sum, false, true>);
  add("reduce_max_fwd", types, check_reduction<false>, run_reduction<Maximum, false, false>);
  add("reduce_min_fwd", types, check_reduction<false>, run_reduction<Minimum, false, false>);
  add("reduce_prod_fwd", types, check_reduction<false>, run_reduction<Product, false, false>);
  add("reduce_sum_square_fwd", kFloats, check_reduction<false>, run_reduction<SumOfSquares, false, false>);
  add("reduce_sum_multi_dim_fwd", types, check_reduction<true>, run_reduction<Sum, true, false>);
  add("reduce_mean_multi_dim_fwd", kFloats, check_reduction<true>, run_reduction<Sum, true, true>);
  add("reduce_max_multi_dim_fwd", types, check_reduction<true>, run_reduction<Maximum, true, false>);
  add("reduce_min_multi_dim_fwd", types, check_reduction<true>, run_reduction<Minimum, true, false>);
  add("reduce_prod_multi_dim_fwd", types, check_reduction<true>, run_reduction<Product, true, false>);
  add("reduce_sum_square_multi_dim_fwd", kFloats, check_reduction<true>, run_reduction<SumOfSquares, true, false>);
  add("argmax_multi_dim_fwd", types, check_argument<true>, run_argument<true, true>);
  add("argmin_multi_dim_fwd", types, check_argument<true>, run_argument<false, true>);
  add("argmax_fwd", types, check_argument<false>, run_argument<true, false>);
  add("argmin_fwd", types, check_argument<false>, run_argument<false, false>);
}

}  // namespace synapse_emulator
