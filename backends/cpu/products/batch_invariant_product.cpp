// SPDX-License-Identifier: Apache-2.0
// Products in which a row has the same bits whatever other rows there are, as many requests in one batch need it. The
// library takes sums in another order for one row than for many. Here each sum goes through depth one number after the
// other; what is cut is only what does not show: columns, rows, and depth between two numbers.
#include "cpu/products/batch_invariant_product.h"

#include <algorithm>
#include <string_view>

#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/row_products.h"

namespace transom::cpu {
namespace {

// A chunk of a that stays in the second cache while the panels go by, and of the panels, while the rows do.
constexpr int64_t kRows = 96, kDepth = 1024, kDepthOfNarrow = 256, kFewRows = 8;

struct Panels : PackedWeight {
  PackedMemory values;
};

RowStorage storage_of(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT32 ? kStoredF32 : dtype == TRANSOM_BFLOAT16 ? kStoredBF16 : kStoredF16;
}

struct InvariantProduct {
  int64_t m, n, k, b_row, b_column, width, panels;
  transom_dtype input, stored, output;  // of a and the bias; of b where it is packed from
  bool bias;

  InvariantProduct(const ProductPlan& plan, transom_dtype from)
      : m(plan.m),
        n(plan.n),
        k(plan.k),
        b_row(plan.b.row),
        b_column(plan.b.column),
        width(static_cast<int64_t>(row_products().width)),
        panels((n + width - 1) / width),
        input(plan.a.dtype),
        stored(from),
        output(plan.output),
        bias(plan.bias) {}

  size_t panel_bytes() const { return static_cast<size_t>(panels * width * k) * element_size(input); }

  template <typename T>
  void pack(const T* b, T* to) const {
    parallel_ranges(panels, std::max<int64_t>((1 << 14) / (k * width), 1), [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel * width, there = std::min(width, n - first);
        T* target = to + panel * k * width;
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < width; ++j)
            target[i * width + j] = j < there ? b[i * b_row + (first + j) * b_column] : T{};
      }
    });
  }

  void pack(const std::byte* b, int64_t count, std::byte* to) const {
    std::vector<std::byte> cast;
    if (stored != input) {
      cast.resize(static_cast<size_t>(count) * element_size(input));
      convert(stored, b, input, cast.data(), count);
      b = cast.data();
    }
    if (input == TRANSOM_FLOAT32) pack(reinterpret_cast<const float*>(b), reinterpret_cast<float*>(to));
    else pack(reinterpret_cast<const uint16_t*>(b), reinterpret_cast<uint16_t*>(to));
  }

  // Columns [begin, end) panels of rows [row, row + rows); bias in f32.
  void multiply(const float* a, const std::byte* packed, const float* shift, std::byte* c, int64_t row, int64_t rows,
                int64_t begin, int64_t end) const {
    const RowProducts& kernels = row_products();
    // The panels that are multiplied together stay in the first cache while the rows go by.
    const bool wide_registers = kernels.width == 16;
    const int64_t columns = (end - begin) * width, together = rows < kFewRows ? 8 : wide_registers ? 4 : 2;
    const bool widens = input != TRANSOM_FLOAT32 && rows >= kFewRows;
    const int64_t most = rows < kFewRows || wide_registers ? kDepth : kDepthOfNarrow;
    const int64_t chunk = k > most + most / 2 ? most : k;
    Scratch scratch(Scratch::bytes_of<float>(rows * columns) +
                    Scratch::bytes_of<float>(widens ? together * width * chunk : 0));
    auto* sums = scratch.take<float>(rows * columns);
    auto* wide = scratch.take<float>(widens ? together * width * chunk : 0);
    for (int64_t depth = 0; depth < k; depth += chunk) {
      const int64_t some = std::min(chunk, k - depth);
      for (int64_t panel = begin; panel < end; panel += together) {
        const int64_t count = std::min(together, end - panel);
        const std::byte* from = packed + static_cast<size_t>((panel * k + depth) * width) * element_size(input);
        const void* b = from;
        int64_t step = k * width;
        RowStorage storage = storage_of(input);
        if (widens) {
          for (int64_t i = 0; i < count; ++i)
            load_function(input)(wide + i * some * width, from + static_cast<size_t>(i * step) * 2, nullptr, nullptr,
                                 static_cast<size_t>(some * width));
          b = wide, step = some * width, storage = kStoredF32;
        }
        kernels.multiply[storage](sums + (panel - begin) * width, static_cast<size_t>(columns), a + row * k + depth,
                                  static_cast<size_t>(k), b, static_cast<size_t>(step), static_cast<size_t>(rows),
                                  static_cast<size_t>(count), static_cast<size_t>(some), depth > 0);
      }
    }
    const int64_t first = begin * width, there = std::min(columns, n - first);
    for (int64_t i = 0; i < rows; ++i) {
      float* from = sums + i * columns;
      if (shift)
        for (int64_t j = 0; j < there; ++j) from[j] += shift[first + j];
      const auto at = static_cast<size_t>((row + i) * n + first);
      if (output == TRANSOM_FLOAT32) std::copy_n(from, there, reinterpret_cast<float*>(c) + at);
      else store_function(output)(c + at * 2, from, nullptr, nullptr, static_cast<size_t>(there));
    }
  }

  void run(const float* a, const std::byte* packed, const float* shift, std::byte* c) const {
    const int64_t row_chunks = (m + kRows - 1) / kRows;
    // Parts of columns for the threads: whole groups of panels, and enough of them that no thread waits long.
    const int64_t groups = (panels + 7) / 8, threads = static_cast<int64_t>(thread_count());
    const int64_t work = 8 * width * k * std::min(m, kRows);
    const int64_t parts = std::clamp<int64_t>(groups * work >> 15, 1, std::min(groups, threads == 1 ? 1 : 4 * threads));
    parallel_for(static_cast<size_t>(parts * row_chunks), [&](size_t task) {
      const int64_t part = static_cast<int64_t>(task) % parts, row = static_cast<int64_t>(task) / parts * kRows;
      const int64_t begin = groups * part / parts * 8, end = std::min(groups * (part + 1) / parts * 8, panels);
      constexpr int64_t kColumns = 32;  // panels of a tile of sums
      for (int64_t panel = begin; panel < end; panel += kColumns)
        multiply(a, packed, shift, c, row, std::min(kRows, m - row), panel, std::min(panel + kColumns, end));
    });
  }
};

}  // namespace

bool is_batch_invariant(const Node& node) { return node.integer("batch_invariant", 0) != 0; }

std::optional<Kernel> batch_invariant_kernel(const Node& node, const ProductPlan& plan) {
  const transom_dtype input = plan.a.dtype;
  if (plan.batch != 1 || plan.a.rearrange || plan.b.rearrange || plan.b.dtype != input || plan.a.column != 1 ||
      (plan.a.row != plan.k && plan.m != 1) || (input != TRANSOM_FLOAT32 && !is_half(input)) ||
      (plan.output != TRANSOM_FLOAT32 && plan.output != input))
    return std::nullopt;
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  const InvariantProduct product(plan, weight ? weight->dtype : input);
  const bool wide = input == TRANSOM_FLOAT32;
  const size_t a_bytes = wide ? 0 : aligned(static_cast<size_t>(plan.m * plan.k) * sizeof(float));
  const size_t bias_bytes = wide || !plan.bias ? 0 : aligned(static_cast<size_t>(plan.n) * sizeof(float));
  const size_t own = weight ? 0 : aligned(product.panel_bytes());
  const int64_t count = plan.b.count;
  Kernel kernel{fmt::format("rows apart, {}{}", row_products().name, weight ? ", packed" : ""),
                [=](const Arguments& arguments) {
                  const float* a = arguments.input<float>(0);
                  const float* shift = plan.bias ? arguments.input<float>(2) : nullptr;
                  std::byte* scratch = arguments.scratch;
                  if (!wide) {
                    widen(input, arguments.inputs[0], reinterpret_cast<float*>(scratch), plan.m * plan.k);
                    a = reinterpret_cast<const float*>(scratch);
                    if (plan.bias) {
                      widen(input, arguments.inputs[2], reinterpret_cast<float*>(scratch + a_bytes), plan.n);
                      shift = reinterpret_cast<const float*>(scratch + a_bytes);
                    }
                  }
                  std::shared_ptr<PackedWeight> kept;
                  const std::byte* packed = scratch + a_bytes + bias_bytes;
                  if (weight) {
                    const auto make = [&]() -> std::shared_ptr<PackedWeight> {
                      auto made = std::make_shared<Panels>();
                      made->values = allocate_packed(product.panel_bytes());
                      product.pack(arguments.inputs[1], count, made->values.get());
                      return made;
                    };
                    kept = packed_copy(
                        *arguments.input_buffers[1], arguments.input_offsets[1],
                        {-2, product.k, product.n, product.b_row, product.b_column, input, product.stored}, make);
                    packed = static_cast<const Panels&>(*kept).values.get();
                  } else {
                    product.pack(arguments.inputs[1], count, scratch + a_bytes + bias_bytes);
                  }
                  product.run(a, packed, shift, arguments.outputs[0]);
                },
                a_bytes + bias_bytes + own};
  if (weight) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

}  // namespace transom::cpu
