// SPDX-License-Identifier: Apache-2.0
// Products in which a row has the same bits whatever other rows there are, as many requests in one batch need it. The
// library takes sums in another order for one row than for many. Here each sum goes through depth one number after the
// other; what is cut is only what does not show: columns, rows, and depth between two numbers.
#include "cpu/products/batch_invariant_product.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/batch_invariant_pairs.h"
#include "cpu/products/panel_packing.h"
#include "cpu/products/product_parts.h"
#include "cpu/vector/products/row_products.h"

namespace transom::cpu {
namespace {

// A chunk of a that stays in the second cache while the panels go by, and of the panels, while the rows do.
constexpr int64_t kRows = 96, kDepth = 1024, kDepthOfNarrow = 256, kFewRows = 8;

struct Panels : PackedWeight {
  PackedMemory values;
  RowStorage storage = kStoredF32;
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

  size_t panel_bytes() const { return panel_bytes(element_size(input)); }
  size_t panel_bytes(size_t number) const { return static_cast<size_t>(panels * width * k) * number; }

  template <typename Work>
  void for_panels(Work&& work) const {
    parallel_ranges(panels, std::max<int64_t>((1 << 14) / (k * width), 1), [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) work(panel);
    });
  }

  template <typename T>
  void pack(const T* b, T* to) const {
    for_panels([&](int64_t panel) {
      const int64_t first = panel * width, there = std::min(width, n - first);
      T* target = to + panel * k * width;
      if (b_row == 1) return pack_rows_as_panel(b + first * b_column, b_column, there, k, width, target);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < width; ++j)
          target[i * width + j] = j < there ? b[i * b_row + (first + j) * b_column] : T{};
    });
  }

  // A checkpoint of bf16 that is computed in f32 has f32 numbers whose lower half is zero. Without it they are half the
  // memory, half of what each token reads, and the same numbers. False where one has more than that.
  bool pack_upper_halves(const float* b, uint16_t* to) const {
    if (b_row != 1) return false;
    std::atomic<bool> exact{true};
    for_panels([&](int64_t panel) {
      if (!exact.load(std::memory_order_relaxed)) return;
      const int64_t first = panel * width, there = std::min(width, n - first);
      constexpr int64_t kDepthOfPart = 256;
      std::vector<uint16_t> halves(static_cast<size_t>(there * kDepthOfPart));
      uint32_t lower = 0;
      for (int64_t depth = 0; depth < k; depth += kDepthOfPart) {
        const int64_t some = std::min(kDepthOfPart, k - depth);
        for (int64_t row = 0; row < there; ++row)
          lower |= take_upper_halves(b + (first + row) * b_column + depth, some, halves.data() + row * kDepthOfPart);
        if (lower != 0) return exact.store(false, std::memory_order_relaxed);
        pack_rows_as_panel(halves.data(), kDepthOfPart, there, some, width, to + (panel * k + depth) * width);
      }
    });
    return exact;
  }

  // The panels of a weight that does not change, in the smallest type that holds it.
  std::shared_ptr<Panels> packed_panels(const std::byte* b, int64_t count) const {
    auto made = std::make_shared<Panels>();
    made->storage = storage_of(input);
    const bool is_bf16 = input == TRANSOM_FLOAT32 && stored == TRANSOM_BFLOAT16;
    if (is_bf16 || (input == TRANSOM_FLOAT32 && stored == input)) {
      const auto* numbers = reinterpret_cast<const float*>(b);
      std::vector<uint16_t> first(static_cast<size_t>(k));
      // Weights of f32 show it in their first row.
      if (is_bf16 || (b_row == 1 && take_upper_halves(numbers, k, first.data()) == 0)) {
        made->values = allocate_packed(panel_bytes(sizeof(uint16_t)));
        auto* to = reinterpret_cast<uint16_t*>(made->values.get());
        made->storage = kStoredBF16;
        if (is_bf16) pack(reinterpret_cast<const uint16_t*>(b), to);
        if (is_bf16 || pack_upper_halves(numbers, to)) return made;
        made->storage = kStoredF32;
      }
    }
    made->values = allocate_packed(panel_bytes());
    pack(b, count, made->values.get());
    return made;
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
  void multiply(const float* a, const std::byte* packed, RowStorage kept, const float* shift, std::byte* c, int64_t row,
                int64_t rows, int64_t begin, int64_t end) const {
    const RowProducts& kernels = row_products();
    // The panels that are multiplied together stay in the first cache while the rows go by.
    const bool wide_registers = kernels.width == 16;
    // Numbers of 16 bits are widened anew for each block of rows in less time than they are stored and read. In
    // registers of 256 bits that holds for any number of rows: widening takes units there that the products leave free.
    const bool few = rows < kFewRows || (kept != kStoredF32 && (!wide_registers || rows <= 2 * kFewRows));
    const int64_t columns = (end - begin) * width, together = few ? 8 : wide_registers ? 4 : 2;
    const bool widens = kept != kStoredF32 && !few;
    const size_t number = kept == kStoredF32 ? 4 : 2;
    const TileFunction load = load_function(kept == kStoredBF16 ? TRANSOM_BFLOAT16 : TRANSOM_FLOAT16);
    const int64_t most = few || wide_registers ? kDepth : kDepthOfNarrow;
    const int64_t chunk = k > most + most / 2 ? most : k;
    Scratch scratch(Scratch::bytes_of<float>(rows * columns) +
                    Scratch::bytes_of<float>(widens ? together * width * chunk : 0));
    auto* sums = scratch.take<float>(rows * columns);
    auto* wide = scratch.take<float>(widens ? together * width * chunk : 0);
    for (int64_t depth = 0; depth < k; depth += chunk) {
      const int64_t some = std::min(chunk, k - depth);
      for (int64_t panel = begin; panel < end; panel += together) {
        const int64_t count = std::min(together, end - panel);
        const std::byte* from = packed + static_cast<size_t>((panel * k + depth) * width) * number;
        const void* b = from;
        int64_t step = k * width;
        RowStorage storage = kept;
        if (widens) {
          for (int64_t i = 0; i < count; ++i)
            load(wide + i * some * width, from + static_cast<size_t>(i * step) * 2, nullptr, nullptr,
                 static_cast<size_t>(some * width));
          b = wide, step = some * width, storage = kStoredF32;
        }
        kernels.multiply[storage](sums + (panel - begin) * width, static_cast<size_t>(columns), a + row * k + depth,
                                  static_cast<size_t>(k), b, static_cast<size_t>(step), static_cast<size_t>(rows),
                                  static_cast<size_t>(count), static_cast<size_t>(some), depth > 0);
      }
    }
    const int64_t first = begin * width, there = std::min(columns, n - first);
    for (int64_t i = 0; i < rows; ++i)
      store_sums(sums + i * columns, shift ? shift + first : nullptr, there, output,
                 c + static_cast<size_t>((row + i) * n + first) * element_size(output));
  }

  void run(const float* a, const std::byte* packed, RowStorage kept, const float* shift, std::byte* c) const {
    constexpr int64_t kColumns = 32;  // panels of a tile of sums
    const int64_t rows = std::min(m, kRows);
    for_parts_of_product(
        m, kRows, (panels + 7) / 8, 8 * width * k * rows, 1 << 15, [&](int64_t row, int64_t begin, int64_t end) {
          const int64_t last = std::min(end * 8, panels);
          for (int64_t panel = begin * 8; panel < last; panel += kColumns)
            multiply(a, packed, kept, shift, c, row, std::min(kRows, m - row), panel, std::min(panel + kColumns, last));
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
  if (auto pairs = batch_invariant_pairs(node, plan)) return pairs;
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
                  RowStorage storage = storage_of(input);
                  if (weight) {
                    const auto make = [&]() -> std::shared_ptr<PackedWeight> {
                      return product.packed_panels(arguments.inputs[1], count);
                    };
                    kept = packed_copy(
                        *arguments.input_buffers[1], arguments.input_offsets[1],
                        {-2, product.k, product.n, product.b_row, product.b_column, input, product.stored}, make);
                    packed = static_cast<const Panels&>(*kept).values.get();
                    storage = static_cast<const Panels&>(*kept).storage;
                  } else {
                    product.pack(arguments.inputs[1], count, scratch + a_bytes + bias_bytes);
                  }
                  product.run(a, packed, storage, shift, arguments.outputs[0]);
                },
                a_bytes + bias_bytes + own};
  if (weight) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

}  // namespace transom::cpu
