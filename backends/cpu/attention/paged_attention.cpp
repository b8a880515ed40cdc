// SPDX-License-Identifier: Apache-2.0
// paged_attention of rows of one query: reads the blocks that a row has, as many keys as it sees. Neighbouring rows of
// one text, a chunk of a prompt, go through the blocks together, so that a block is read once for all of them; the bits
// of a row are those that it has alone, since each sum goes over depth or keys in one order.
#include "cpu/attention/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/attention/partial_rows.h"
#include "cpu/vector/products/row_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kMostTogether = 8;       // rows of a task
constexpr int64_t kMostScores = 64 << 10;  // of a task
constexpr int64_t kTasks = 4;              // of a thread, at least where there are as many heads

struct PagedPlan {
  int64_t rows, H, G, d, e, size, blocks, M;
  int64_t window;
  float scale, cap;
  bool sinks;                                 // one more score for each head, without a value
  transom_dtype dtype, kept, table, lengths;  // of queries and the result; of the blocks
  RowStorage storage;

  explicit PagedPlan(const Node& node)
      : rows(node.input(0).shape[0]),
        H(node.input(0).shape[2]),
        G(node.input(1).shape[node.input(1).rank() - 2]),
        d(node.input(0).shape[3]),
        e(node.input(2).shape.back()),
        size(node.integer("block_size", node.input(1).shape[1])),
        blocks(node.input(1).shape[0] / (node.has("block_size") ? size : 1)),
        M(node.input(3).shape[1]),
        window(node.integer("sliding_window")),
        scale(static_cast<float>(node.number("scale"))),
        cap(static_cast<float>(node.number("soft_cap"))),
        sinks(node.inputs().size() == 6),
        dtype(node.input(0).dtype),
        kept(node.input(1).dtype),
        table(node.input(3).dtype),
        lengths(node.input(4).dtype),
        storage(kept == TRANSOM_FLOAT32    ? kStoredF32
                : kept == TRANSOM_BFLOAT16 ? kStoredBF16
                                           : kStoredF16) {}

  int64_t group() const { return H / G; }
  size_t element() const { return element_size(kept); }
};

int64_t index_at(transom_dtype dtype, const std::byte* indices, int64_t i) {
  return dtype == TRANSOM_INT64 ? reinterpret_cast<const int64_t*>(indices)[i]
                                : reinterpret_cast<const int32_t*>(indices)[i];
}

// Rows [row, row + count): each one sees one key more than the one before it.
struct Together {
  int64_t row, count, length;  // keys of the first row
};

struct PagedAttention {
  PagedPlan plan;

  int64_t length_of(const Arguments& arguments, int64_t row) const {
    return std::clamp<int64_t>(index_at(plan.lengths, arguments.inputs[4], row), 1, plan.M * plan.size);
  }

  std::vector<Together> grouped(const Arguments& arguments) const {
    std::vector<Together> groups;
    const size_t width = element_size(plan.table);
    for (int64_t row = 0; row < plan.rows; ++row) {
      const int64_t length = length_of(arguments, row);
      if (!groups.empty()) {
        Together& last = groups.back();
        const std::byte* tables = arguments.inputs[3];
        const auto used = static_cast<size_t>((last.length + last.count - 1 + plan.size - 1) / plan.size) * width;
        const size_t step = static_cast<size_t>(plan.M) * width;
        if (last.count < kMostTogether && length == last.length + last.count &&
            std::memcmp(tables + static_cast<size_t>(row) * step, tables + static_cast<size_t>(row - 1) * step, used) ==
                0) {
          ++last.count;
          continue;
        }
      }
      groups.push_back({row, 1, length});
    }
    return groups;
  }

  // How many heads of the keys a task takes: side by side in memory, they are read in one go. Each thread should have
  // some tasks, and the scores of one should stay in its cache.
  int64_t heads_together(const std::vector<Together>& groups) const {
    int64_t longest = 1, rows = 1;
    for (const Together& each : groups)
      longest = std::max(longest, each.length + each.count - 1), rows = std::max(rows, each.count);
    const int64_t seen = plan.window > 0 ? std::min(longest, plan.window + plan.size + rows) : longest;
    const int64_t fit = kMostScores / (rows * plan.group() * seen);
    const int64_t even = static_cast<int64_t>(groups.size()) * plan.G / (kTasks * static_cast<int64_t>(thread_count()));
    return std::clamp<int64_t>(std::min(fit, even), 1, plan.G);
  }

  // Heads [g, g + G) of the keys, and the heads of queries that share them.
  void run_heads(const Arguments& arguments, const Together& together, int64_t g, int64_t G) const {
    const RowProducts& kernels = row_products();
    const int64_t shared = plan.group(), count = together.count, d = plan.d, e = plan.e;
    const int64_t rows = count * shared;  // of a head of the keys
    const int64_t longest = together.length + count - 1;
    const int64_t from = plan.window > 0 ? std::max<int64_t>(together.length - plan.window, 0) : 0;
    const int64_t first_block = from / plan.size, row_width = (longest - first_block * plan.size + 15) / 16 * 16;
    const int64_t padded = (e + 15) / 16 * 16;
    Scratch scratch(Scratch::bytes_of<float>(G * rows * d) + Scratch::bytes_of<float>(G * rows * row_width) +
                    Scratch::bytes_of<float>(G * rows * padded));
    auto* q = scratch.take<float>(G * rows * d);                // [G, count, shared, d]
    auto* weights = scratch.take<float>(G * rows * row_width);  // [G, count, shared, keys from the first block on]
    auto* y = scratch.take<float>(G * rows * padded);
    for (int64_t h = 0; h < G; ++h)
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(((together.row + i) * plan.H + (g + h) * shared) * d);
        float* to = q + (h * rows + i * shared) * d;
        if (plan.dtype == TRANSOM_FLOAT32) std::copy_n(arguments.input<float>(0) + at, shared * d, to);
        else
          load_function(plan.dtype)(to, arguments.inputs[0] + at * 2, nullptr, nullptr,
                                    static_cast<size_t>(shared * d));
      }
    // The keys that row i sees are those in [first(i), length + i).
    const auto first = [&](int64_t i) {
      return plan.window > 0 ? std::max<int64_t>(together.length + i - plan.window, 0) : 0;
    };
    // The numbers of heads from g on of a block of keys or values, or null behind the last one.
    const auto block_of = [&](size_t input, int64_t block, int64_t width) -> const std::byte* {
      if (block * plan.size >= longest) return nullptr;
      // The last row's table has all blocks of the others.
      const int64_t entry = (together.row + count - 1) * plan.M + block;
      const int64_t place = std::clamp<int64_t>(index_at(plan.table, arguments.inputs[3], entry), 0, plan.blocks - 1);
      return arguments.inputs[input] + static_cast<size_t>((place * plan.size * plan.G + g) * width) * plan.element();
    };
    // Calls body(block, row i, how many rows that see the same of it, their first key, how many) for each block.
    const auto each_block = [&](const auto& body) {
      for (int64_t block = first_block; block * plan.size < longest; ++block) {
        const auto begin = [&](int64_t i) { return std::max(block * plan.size, first(i)); };
        const auto end = [&](int64_t i) { return std::min((block + 1) * plan.size, together.length + i); };
        for (int64_t i = 0, next; i < count; i = next) {
          for (next = i + 1; next < count && begin(next) == begin(i) && end(next) == end(i);) ++next;
          if (begin(i) < end(i)) body(block, i, next - i, begin(i), end(i) - begin(i));
        }
      }
    };
    const auto size = [](int64_t x) { return static_cast<size_t>(x); };
    const auto heads = [&](int64_t some, int64_t step, const std::byte* next) {
      return RowProducts::Heads{size(G), size(some * shared), size(step), next};
    };
    each_block([&](int64_t block, int64_t i, int64_t some, int64_t key, int64_t keys) {
      const std::byte* k = block_of(1, block, d) + size((key - block * plan.size) * plan.G * d) * plan.element();
      const std::byte* next = block_of(1, block + 1, d);
      if (!next && d == e) next = block_of(2, first_block, e);
      kernels.scores[plan.storage](weights + i * shared * row_width + key - first_block * plan.size,
                                   size(rows * row_width), size(row_width), q + i * shared * d, size(rows * d),
                                   heads(some, d, i == 0 ? next : nullptr), k, size(plan.G * d), size(keys), size(d));
    });
    for (int64_t row = 0; row < G * rows; ++row) {
      const int64_t i = row % rows / shared;
      const int64_t keys = together.length + i - first(i), skipped = first(i) - first_block * plan.size;
      float* own = weights + row * row_width;
      // At an address of its own, whatever the window: reductions of a row then have one order.
      if (skipped > 0) std::memmove(own, own + skipped, size(keys) * sizeof(float));
      if (plan.sinks) {
        float largest, sum;
        partial_rows().statistics(own, nullptr, plan.scale, plan.cap, size(keys), &largest, &sum);
        const float sink = arguments.input<float>(5)[(g + row / rows) * shared + row % shared];
        const float share = sum / (sum + std::exp(sink - largest));
        for (int64_t key = 0; key < keys; ++key) own[key] *= share;
      } else {
        vector_kernels().attention_weights(own, nullptr, plan.scale, plan.cap, size(keys));
      }
      if (skipped > 0) std::memmove(own + skipped, own, size(keys) * sizeof(float));
    }
    std::fill_n(y, G * rows * padded, 0.0f);
    each_block([&](int64_t block, int64_t i, int64_t some, int64_t key, int64_t keys) {
      const std::byte* v = block_of(2, block, e) + size((key - block * plan.size) * plan.G * e) * plan.element();
      const std::byte* next = block_of(2, block + 1, e);
      kernels.mix[plan.storage](y + i * shared * padded, size(rows * padded), size(padded),
                                weights + i * shared * row_width + key - first_block * plan.size,
                                size(rows * row_width), size(row_width), heads(some, e, i == 0 ? next : nullptr), v,
                                size(plan.G * e), size(keys), size(e));
    });
    for (int64_t h = 0; h < G; ++h)
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t i = row / shared, query = row % shared;
        const auto at = size(((together.row + i) * plan.H + (g + h) * shared + query) * e);
        const float* own = y + (h * rows + row) * padded;
        if (plan.dtype == TRANSOM_FLOAT32) std::copy_n(own, e, arguments.output<float>() + at);
        else store_function(plan.dtype)(arguments.outputs[0] + at * 2, own, nullptr, nullptr, size(e));
      }
  }

  void run(const Arguments& arguments) const {
    const std::vector<Together> groups = grouped(arguments);
    const int64_t some = heads_together(groups), slices = (plan.G + some - 1) / some;
    parallel_for(groups.size() * static_cast<size_t>(slices), [&](size_t task) {
      const int64_t slice = static_cast<int64_t>(task) % slices;
      const int64_t begin = plan.G * slice / slices, end = plan.G * (slice + 1) / slices;
      run_heads(arguments, groups[task / static_cast<size_t>(slices)], begin, end - begin);
    });
  }
};

Kernel make_paged_attention(const Node& node) {
  const PagedAttention attention{PagedPlan(node)};
  return {fmt::format("attention to blocks {}", row_products().name),
          [attention](const Arguments& arguments) { attention.run(arguments); }};
}

bool claims_single_queries(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  if (inputs.size() < 5 || inputs.size() > 6 || inputs[0].shape[1] != 1) return false;
  if (inputs.size() == 6 && inputs[5].dtype != TRANSOM_FLOAT32) return false;  // sinks
  for (const transom_value& input : inputs)
    if (std::count(input.shape, input.shape + input.rank, 0)) return false;
  for (const size_t i : {0, 1})
    if (inputs[i].dtype != TRANSOM_FLOAT32 && !is_half(static_cast<transom_dtype>(inputs[i].dtype))) return false;
  return true;
}

}  // namespace

void add_paged_attention_kernels(KernelTable& table) {
  table["paged_attention"] = {make_paged_attention, claims_single_queries};
  table["paged_sink_attention"] = {make_paged_attention, claims_single_queries};
}

}  // namespace transom::cpu
