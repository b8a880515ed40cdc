// SPDX-License-Identifier: Apache-2.0
// Reductions, running sums, sorting, random numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "hpu/device/log.h"
#include "hpu/host/host_array.h"

namespace transom::hpu {
namespace {

using Inputs = std::vector<const HostArray*>;
using Outputs = std::vector<HostArray>;

size_t as_size(int64_t value) { return static_cast<size_t>(value); }

// What a reduction of nothing gives.
void fill_with_start(std::string_view op, HostArray& out) {
  const auto count = as_size(out.type.count());
  for (size_t i = 0; i < count; ++i) {
    if (op == "reduce_sum") out.set(i, 0.0);
    else if (out.floating()) out.set(i, op == "reduce_max" ? -INFINITY : INFINITY);
    else if (out.type.dtype == TRANSOM_INT64) out.integer[i] = op == "reduce_max" ? INT64_MIN : INT64_MAX;
    else out.set(i, op == "reduce_max" ? -0x1p62 : 0x1p62);  // stops at the ends of the type
  }
}

void reduce(const Node& node, const Inputs& in, Outputs& out) {
  const Shape& shape = in[0]->type.shape;
  const Shape axes = node.integers("axes");
  Shape kept, steps(shape.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) kept.push_back(shape[i]);
  const Shape strides = strides_of(kept);
  for (size_t i = 0, k = 0; i < shape.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) steps[i] = strides[k++];
  const std::string& op = node.op();
  fill_with_start(op, out[0]);
  std::vector<double> sums = out[0].real;
  size_t i = 0;
  for_each_index(shape, [&](const Shape& index) {
    const size_t to = as_size(offset_of(index, steps));
    if (in[0]->floating()) {
      const double x = in[0]->real[i];
      if (op == "reduce_sum") sums[to] += x;
      else if (std::isnan(x) || std::isnan(sums[to])) sums[to] = NAN;
      else sums[to] = op == "reduce_max" ? std::max(sums[to], x) : std::min(sums[to], x);
    } else {
      int64_t& y = out[0].integer[to];
      const int64_t x = in[0]->integer[i];
      if (op == "reduce_sum") out[0].set(to, static_cast<int64_t>(static_cast<uint64_t>(y) + static_cast<uint64_t>(x)));
      else y = op == "reduce_max" ? std::max(y, x) : std::min(y, x);
    }
    ++i;
  });
  for (size_t k = 0; k < sums.size(); ++k) out[0].set(k, sums[k]);
}

// Whether the element at x comes before that at y, for an order in which NaN is last or first.
bool before(const HostArray& in, size_t x, size_t y, bool descending, bool nan_last) {
  if (!in.floating()) return descending ? in.integer[x] > in.integer[y] : in.integer[x] < in.integer[y];
  const double a = in.real[x], b = in.real[y];
  if (std::isnan(a) || std::isnan(b))
    return nan_last ? !std::isnan(a) && std::isnan(b) : std::isnan(a) && !std::isnan(b);
  return descending ? a > b : a < b;
}

void arg_extreme(const Node& node, const Inputs& in, Outputs& out) {
  const Around view(in[0]->type.shape, node.integer("axis"));
  const bool largest = node.op() == "arg_max";
  for (int64_t b = 0; b < view.before; ++b)
    for (int64_t a = 0; a < view.after; ++a) {
      const auto at = [&](int64_t i) { return as_size((b * view.length + i) * view.after + a); };
      int64_t best = 0;
      for (int64_t i = 1; i < view.length; ++i)
        if (before(*in[0], at(i), at(best), largest, false)) best = i;
      out[0].set(as_size(b * view.after + a), best);
    }
}

void order_lines(const HostArray& in, int64_t axis, bool descending, bool nan_last, int64_t keep, Outputs& out) {
  const Around view(in.type.shape, axis);
  std::vector<int64_t> places(as_size(view.length));
  for (int64_t b = 0; b < view.before; ++b)
    for (int64_t a = 0; a < view.after; ++a) {
      const auto at = [&](int64_t i) { return as_size((b * view.length + i) * view.after + a); };
      std::iota(places.begin(), places.end(), int64_t{0});
      std::stable_sort(places.begin(), places.end(),
                       [&](int64_t x, int64_t y) { return before(in, at(x), at(y), descending, nan_last); });
      for (int64_t i = 0; i < keep; ++i) {
        const size_t to = as_size((b * keep + i) * view.after + a);
        out[0].take(to, in, at(places[as_size(i)]));
        out[1].set(to, places[as_size(i)]);
      }
    }
}

void sort(const Node& node, const Inputs& in, Outputs& out) {
  const int64_t axis = node.integer("axis");
  order_lines(*in[0], axis, node.integer("descending") != 0, true, in[0]->type.shape[as_size(axis)], out);
}

void top_k(const Node& node, const Inputs& in, Outputs& out) {
  order_lines(*in[0], static_cast<int64_t>(in[0]->type.shape.size()) - 1, true, false, node.integer("k"), out);
}

void cumulative_sum(const Node& node, const Inputs& in, Outputs& out) {
  const Around view(in[0]->type.shape, node.integer("axis"));
  for (int64_t b = 0; b < view.before; ++b)
    for (int64_t a = 0; a < view.after; ++a) {
      double sum = 0;
      uint64_t total = 0;
      for (int64_t i = 0; i < view.length; ++i) {
        const size_t at = as_size((b * view.length + i) * view.after + a);
        if (in[0]->floating()) out[0].set(at, sum += in[0]->real[at]);
        else out[0].set(at, static_cast<int64_t>(total += static_cast<uint64_t>(in[0]->integer[at])));
      }
    }
}

// ---- Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0], product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// Calls store(i, word i) for every element.
template <typename Store>
void draw(const HostArray& key, int64_t count, Store&& store) {
  const auto seed = static_cast<uint64_t>(key.integer[0]), offset = static_cast<uint64_t>(key.integer[1]);
  parallel_ranges((count + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto place = static_cast<uint64_t>(block);
      const auto words = philox({static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32),
                                 static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)},
                                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
      for (int64_t i = block * 4; i < std::min(count, block * 4 + 4); ++i) store(as_size(i), words[as_size(i % 4)]);
    }
  });
}

void random_bits(const Node&, const Inputs& in, Outputs& out) {
  draw(*in[0], out[0].type.count(), [&](size_t i, uint32_t word) { out[0].integer[i] = word; });
}

// Which elements `dropout` keeps.
void dropout_mask(const Node& node, const Inputs& in, Outputs& out) {
  const double bound = std::min(std::floor(node.number("probability") * 0x1p32), 0x1p32 - 1);
  const auto least = static_cast<uint32_t>(bound);
  draw(*in[0], out[0].type.count(), [&](size_t i, uint32_t word) { out[0].integer[i] = word >= least; });
}

}  // namespace

void add_host_reductions(HostTable& table) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) table[op] = reduce;
  table["arg_max"] = table["arg_min"] = arg_extreme;
  table["sort"] = sort;
  table["top_k"] = top_k;
  table["cumulative_sum"] = cumulative_sum;
}

void add_host_random(HostTable& table) {
  table["random_bits"] = random_bits;
  table["dropout_mask"] = dropout_mask;
}

}  // namespace transom::hpu
