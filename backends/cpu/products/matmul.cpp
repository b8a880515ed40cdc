// SPDX-License-Identifier: Apache-2.0
// dot_general and linear. Five ways: weights that do not change by own loops over packed panels; a few rows with a
// large matrix by own loops that reach the bandwidth of memory; many small f32 products by panels; f32 and bf16 by the
// library, cut into chunks for the threads; f64 and integers by plain loops. What the library does not compute (f16,
// and bf16 on older processors) goes through f32.
#include <algorithm>
#include <memory>

#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/apart/panel_product.h"
#include "cpu/products/few_pair_rows.h"
#include "cpu/products/parallel_gemm.h"
#include "cpu/products/product_plan.h"
#include "cpu/products/small_products.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/pair_rows.h"

namespace transom::cpu {
namespace {

// ---- plain loops

template <typename T>
void plain_product(const ProductPlan& plan, const T* a, const T* b, T* c) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const int64_t rows = plan.batch * plan.m;
  parallel_ranges(rows, std::max<int64_t>((1 << 14) / (plan.n * plan.k + 1), 1), [&](int64_t begin, int64_t end) {
    std::vector<Sum> sums(static_cast<size_t>(plan.n));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t batch = row / plan.m, m = row % plan.m;
      const T* left = a + offset_of(batch, plan.batch_shape, plan.a.batch_strides) + m * plan.a.row;
      const T* right = b + offset_of(batch, plan.batch_shape, plan.b.batch_strides);
      std::fill(sums.begin(), sums.end(), Sum{0});
      for (int64_t k = 0; k < plan.k; ++k) {
        const auto factor = static_cast<Sum>(left[k * plan.a.column]);
        for (int64_t n = 0; n < plan.n; ++n)
          sums[static_cast<size_t>(n)] += factor * static_cast<Sum>(right[k * plan.b.row + n * plan.b.column]);
      }
      for (int64_t n = 0; n < plan.n; ++n) c[row * plan.n + n] = static_cast<T>(sums[static_cast<size_t>(n)]);
    }
  });
}

// ---- a few rows

// Up to how many rows own loops are taken: they are bound by the reading of the weight, and give each row of x the bits
// that it has alone. The library's products of packed bf16 are faster where the processor has them.
int64_t most_few_rows(transom_dtype dtype, bool frozen) {
  return frozen && dtype == TRANSOM_BFLOAT16 && library_computes(dtype) ? 0 : 8;
}

bool few_rows(const ProductPlan& plan, bool frozen) {
  return plan.batch == 1 && plan.m <= most_few_rows(plan.a.dtype, frozen) && plan.b.row == 1 &&
         (plan.b.column == plan.k || plan.n == 1) && plan.a.column == 1 && (plan.a.row == plan.k || plan.m == 1) &&
         !plan.a.rearrange && !plan.b.rearrange;
}

// A frozen weight in the type in which the node reads it.
struct CastWeight : PackedWeight {
  std::vector<std::byte> values;
};

std::shared_ptr<PackedWeight> cast_weight(const Arguments& arguments, const ProductOperand& b, transom_dtype stored) {
  return packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1], {-1, b.count, stored, b.dtype}, [&] {
    auto made = std::make_shared<CastWeight>();
    made->values.resize(static_cast<size_t>(b.count) * element_size(b.dtype));
    convert(stored, arguments.inputs[1], b.dtype, made->values.data(), b.count);
    return made;
  });
}

Kernel few_rows_kernel(const Node& node, const ProductPlan& plan) {
  const size_t x_bytes = aligned(static_cast<size_t>(plan.m * plan.k) * sizeof(float));
  const size_t y_bytes = aligned(static_cast<size_t>(plan.m * plan.n) * sizeof(float));
  const bool narrow_output = plan.output != TRANSOM_FLOAT32, wide_input = plan.a.dtype == TRANSOM_FLOAT32;
  const std::optional<Node::Origin> origin = node.frozen_origin(1);
  const bool cast = origin && origin->dtype != plan.b.dtype;
  Kernel kernel{
      fmt::format("rows times matrix {}", vector_kernels().name),
      [=](const Arguments& arguments) {
        std::shared_ptr<PackedWeight> kept;
        const std::byte* weight = arguments.inputs[1];
        if (cast) {
          kept = cast_weight(arguments, plan.b, origin->dtype);
          weight = static_cast<const CastWeight&>(*kept).values.data();
        }
        auto* buffer = reinterpret_cast<float*>(arguments.scratch);
        const float* x = arguments.input<float>(0);
        if (!wide_input) {
          widen(plan.a.dtype, arguments.inputs[0], buffer, plan.m * plan.k);
          x = buffer;
        }
        float* y = narrow_output ? reinterpret_cast<float*>(arguments.scratch + x_bytes) : arguments.output<float>();
        const VectorKernels& kernels = vector_kernels();
        parallel_ranges(plan.n, std::max<int64_t>((1 << 15) / (plan.k + 1), 8), [&](int64_t begin, int64_t end) {
          const auto m = static_cast<size_t>(plan.m), n = static_cast<size_t>(plan.n), k = static_cast<size_t>(plan.k);
          const auto rows = static_cast<size_t>(end - begin);
          if (wide_input)
            kernels.rows_f32(y + begin, n, x, reinterpret_cast<const float*>(weight) + begin * plan.k, m, rows, k);
          else
            (plan.a.dtype == TRANSOM_FLOAT16 ? kernels.rows_f16 : kernels.rows_bf16)(
                y + begin, n, x, reinterpret_cast<const uint16_t*>(weight) + begin * plan.k, m, rows, k);
          if (!plan.bias) return;
          for (int64_t row = 0; row < plan.m; ++row)
            for (int64_t i = begin; i < end; ++i)
              y[row * plan.n + i] += wide_input ? arguments.input<float>(2)[i]
                                     : plan.a.dtype == TRANSOM_FLOAT16
                                         ? static_cast<float>(arguments.input<Float16>(2)[i])
                                         : static_cast<float>(arguments.input<BFloat16>(2)[i]);
        });
        if (narrow_output) narrow(plan.output, y, arguments.outputs[0], plan.m * plan.n);
      },
      x_bytes + y_bytes};
  if (cast) kernel.instead.emplace_back(1, origin->value);
  return kernel;
}

// ---- putting them together

// Brings an operand into a matrix with strides, and into f32 where that is what is computed on.
struct Prepared {
  ProductOperand operand;
  size_t rearranged = 0, widened = 0;  // bytes of scratch memory for each

  Prepared(const ProductOperand& from, bool widen_it) : operand(from) {
    if (from.rearrange) rearranged = aligned(static_cast<size_t>(from.count) * element_size(from.dtype));
    if (widen_it) widened = aligned(static_cast<size_t>(from.count) * sizeof(float));
  }
  size_t scratch() const { return rearranged + widened; }
  const std::byte* run(const std::byte* from, std::byte* scratch) const {
    if (operand.rearrange) {
      operand.rearrange->run(scratch, from);
      from = scratch;
    }
    if (widened) {
      auto* wide = reinterpret_cast<float*>(scratch + rearranged);
      widen(operand.dtype, from, wide, operand.count);
      return reinterpret_cast<const std::byte*>(wide);
    }
    return from;
  }
};

void zero_depth(const ProductPlan& plan, const Arguments& arguments) {
  dispatch(plan.output, [&]<typename T>() {
    T* c = arguments.output<T>();
    for (int64_t i = 0; i < plan.batch * plan.m * plan.n; ++i) {
      c[i] = T{};
      if (!plan.bias) continue;
      dispatch(plan.a.dtype, [&]<typename B>() {
        c[i] = static_cast<T>(static_cast<Compute<T>>(static_cast<Compute<B>>(arguments.input<B>(2)[i % plan.n])));
      });
    }
  });
}

Kernel library_kernel(const Node& node, const ProductPlan& plan) {
  // The library pairs the last of an odd number of bf16 values with a zero times what lies behind it: NaN for infinity.
  const bool wide = !library_computes(plan.a.dtype) || (plan.a.dtype == TRANSOM_BFLOAT16 && plan.k % 2 != 0);
  const transom_dtype input = wide ? TRANSOM_FLOAT32 : plan.a.dtype;
  const transom_dtype output = wide ? TRANSOM_FLOAT32 : plan.output;
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  const bool pack = weight && plan.batch == 1 && !plan.b.rearrange;
  const Prepared a(plan.a, wide), b(plan.b, wide);
  const int64_t outputs = plan.batch * plan.m * plan.n;
  const bool narrow_output = output != plan.output;
  const size_t bias_bytes = wide && plan.bias ? aligned(static_cast<size_t>(plan.n) * sizeof(float)) : 0;
  const size_t c_bytes = narrow_output ? aligned(static_cast<size_t>(outputs) * sizeof(float)) : 0;
  // What is read as it is stored needs no packed copy at its first use, unless the library would add up in another
  // order then: it does where columns are taken one by one, and on processors without AVX-512.
  const bool waits = pack && weight->dtype == plan.b.dtype && !wide && plan.b.row == 1 && library_adds_in_one_order() &&
                     !may_multiply_few_pair_rows(plan);
  std::shared_ptr<const CutProduct> plain;
  if (!pack || waits) plain = std::make_shared<const CutProduct>(plan, input, output, pack);
  const auto reused = pack ? std::make_shared<const PackedProduct>(plan, input, output, weight->dtype) : nullptr;
  Kernel kernel{fmt::format("onednn matmul {}{}", dtype_name(input), pack ? ", packed" : ""),
                [=](const Arguments& arguments) {
                  std::byte* scratch = arguments.scratch;
                  const std::byte* left = a.run(arguments.inputs[0], scratch);
                  scratch += a.scratch();
                  std::shared_ptr<PackedWeight> packed;
                  if (pack)
                    packed = reused->weight(*arguments.input_buffers[1], arguments.input_offsets[1],
                                            arguments.inputs[1], waits);
                  const std::byte* right = packed ? nullptr : b.run(arguments.inputs[1], scratch);
                  scratch += b.scratch();
                  const std::byte* bias = plan.bias ? arguments.inputs[2] : nullptr;
                  if (bias_bytes) {
                    widen(plan.a.dtype, bias, reinterpret_cast<float*>(scratch), plan.n);
                    bias = scratch;
                    scratch += bias_bytes;
                  }
                  std::byte* c = narrow_output ? scratch : arguments.outputs[0];
                  if (packed) reused->run(left, *packed, bias, c);
                  else plain->run(left, right, bias, c);
                  if (narrow_output) narrow(plan.output, reinterpret_cast<float*>(c), arguments.outputs[0], outputs);
                },
                a.scratch() + b.scratch() + bias_bytes + c_bytes};
  if (pack) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

Kernel plain_kernel(const ProductPlan& plan) {
  if (plan.bias || plan.output != plan.a.dtype)
    fail(TRANSOM_UNSUPPORTED, "a bias or another output type than {}", dtype_name(plan.a.dtype));
  const Prepared a(plan.a, false), b(plan.b, false);
  return {"plain loops",
          [=](const Arguments& arguments) {
            const std::byte* left = a.run(arguments.inputs[0], arguments.scratch);
            const std::byte* right = b.run(arguments.inputs[1], arguments.scratch + a.scratch());
            dispatch(plan.output, [&]<typename T>() {
              if constexpr (std::is_same_v<T, Compute<T>>)
                plain_product(plan, reinterpret_cast<const T*>(left), reinterpret_cast<const T*>(right),
                              arguments.output<T>());
            });
          },
          a.scratch() + b.scratch()};
}

// A frozen weight that is read as it is stored, where panels of it and own loops are faster than the library: in f32;
// in bf16, but for tiles; in 16 bits where the library does not compute in them, as it would keep a copy in f32.
bool wants_panels(const Node& node, const ProductPlan& plan) {
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  if (!weight || weight->dtype != plan.b.dtype) return false;
  if (plan.b.dtype == TRANSOM_BFLOAT16 && pair_rows()) return !processor_features().amx_bf16 && plan.k % 2 == 0;
  constexpr int64_t kLeastDepth = 32;  // else a block has little to do between its beginning and its end
  if (plan.b.dtype == TRANSOM_FLOAT32) return plan.k >= kLeastDepth || !library_adds_in_one_order();
  return !library_computes(plan.b.dtype);
}

Kernel make_product(const Node& node, const ProductPlan& plan) {
  if (plan.batch * plan.m * plan.n == 0) return {"nothing", [](const Arguments&) {}};
  if (plan.k == 0) return {"fill", [plan](const Arguments& arguments) { zero_depth(plan, arguments); }};
  if (plan.a.dtype == TRANSOM_FLOAT64 || !is_floating(plan.a.dtype)) return plain_kernel(plan);
  if (is_batch_invariant(node))
    if (std::optional<Kernel> kernel = plan.batch == 1 ? panel_product(node, plan) : panel_products(plan))
      return std::move(*kernel);
  if (wants_panels(node, plan))
    if (std::optional<Kernel> kernel = panel_product(node, plan, true)) return std::move(*kernel);
  if (few_rows(plan, node.frozen_origin(1).has_value())) return few_rows_kernel(node, plan);
  if (std::optional<Kernel> kernel = small_products_kernel(plan)) return std::move(*kernel);
  return library_kernel(node, plan);
}

Kernel make_dot_general(const Node& node) { return make_product(node, plan_dot_general(node)); }
Kernel make_linear(const Node& node) { return make_product(node, plan_linear(node)); }

}  // namespace

void add_product_kernels(KernelTable& table) {
  table["dot_general"] = make_dot_general;
  table["linear"] = {make_linear, claims_equal_floats};
}

}  // namespace transom::cpu
