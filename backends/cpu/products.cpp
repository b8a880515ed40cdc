// SPDX-License-Identifier: Apache-2.0
// dot_general and linear. Three ways: a few rows with a large matrix by own loops that reach the bandwidth of memory;
// f32 and bf16 by the library, cut into chunks for the threads; f64 and integers by plain loops. What the library does
// not compute (f16, and bf16 on older processors) goes through f32.
#include <algorithm>
#include <memory>
#include <utility>

#include "cpu/matrix_product.h"
#include "cpu/product_plan.h"
#include "cpu/threads.h"
#include "cpu/vector/kernels.h"
#include "cpu/widening.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

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

// ---- the library, in chunks

constexpr int64_t kColumnBlock = 64;  // of the library's packed layouts; chunks of columns are multiples of it

// How m and n are cut. The last chunk of each may be smaller.
struct Grid {
  int64_t m_step, n_step, m_chunks, n_chunks;
};

int64_t chunk_count(int64_t extent, int64_t step) { return (extent + step - 1) / step; }

// Columns are cut first: the threads then share no part of b, which is the operand that the library packs at each call.
// With a packed b of bf16, rows: where the rows of a result do not follow each other the library keeps all sums apart
// in f32, which costs a sixth of the product when the caches hold other things.
Grid choose_grid(const ProductPlan& plan, bool rows_first) {
  const auto threads = static_cast<int64_t>(thread_count());
  Grid grid{plan.m, plan.n, 1, 1};
  if (plan.batch >= 4 * threads || threads == 1) return grid;
  // Twice as many chunks as threads where they stay large: a thread that is held up then costs less.
  const bool large = rows_first ? plan.m >= 2 * threads * 128 : plan.n >= 2 * threads * 384;
  const int64_t wanted = chunk_count(large ? 2 * threads : threads, std::max<int64_t>(plan.batch, 1));
  const auto cut_rows = [&](int64_t chunks, int64_t least) {
    grid.m_step = chunk_count(plan.m, std::clamp<int64_t>(plan.m / least, 1, chunks));
    grid.m_chunks = chunk_count(plan.m, grid.m_step);
  };
  const auto cut_columns = [&](int64_t chunks) {
    const int64_t column_chunks = std::clamp<int64_t>(plan.n / kColumnBlock, 1, chunks);
    grid.n_step = std::min(chunk_count(chunk_count(plan.n, column_chunks), kColumnBlock) * kColumnBlock, plan.n);
    grid.n_chunks = chunk_count(plan.n, grid.n_step);
  };
  if (rows_first) {
    cut_rows(wanted, 4);
    cut_columns(chunk_count(wanted, grid.m_chunks));
  } else {
    cut_columns(wanted);
    cut_rows(chunk_count(wanted, grid.n_chunks), 16);
  }
  return grid;
}

struct PackedMatrix : PackedWeight {
  PackedMemory values;
};

// Chunks of products of f32 or bf16 matrices.
class ChunkedProduct {
 public:
  // `stored`: the type of the frozen weight that is packed, none where b is read as it is.
  ChunkedProduct(const ProductPlan& plan, transom_dtype input, transom_dtype output,
                 std::optional<transom_dtype> stored)
      : plan_(plan),
        grid_(choose_grid(plan, stored && input == TRANSOM_BFLOAT16)),
        input_(input),
        output_(output),
        stored_(stored) {
    if (stored) lay_out();
    for (const bool last_m : {false, true})
      for (const bool last_n : {false, true})
        primitives_[last_m][last_n] = MatrixProduct::find(shape(last_m, last_n, stored.has_value()));
  }

  void run(const std::byte* a, const std::byte* b, const std::byte* bias, std::byte* c,
           const PackedMatrix* packed) const {
    const size_t in = element_size(input_), out = element_size(output_);
    parallel_for(static_cast<size_t>(plan_.batch * grid_.m_chunks * grid_.n_chunks), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      const int64_t n_chunk = i % grid_.n_chunks, m_chunk = i / grid_.n_chunks % grid_.m_chunks;
      const int64_t batch = i / grid_.n_chunks / grid_.m_chunks;
      const int64_t m = m_chunk * grid_.m_step, n = n_chunk * grid_.n_step;
      const auto bytes = [](int64_t elements, size_t size) { return static_cast<size_t>(elements) * size; };
      const std::byte* left =
          a + bytes(offset_of(batch, plan_.batch_shape, plan_.a.batch_strides) + m * plan_.a.row, in);
      const std::byte* right =
          packed ? packed->values.get() + bytes_before(n)
                 : b + bytes(offset_of(batch, plan_.batch_shape, plan_.b.batch_strides) + n * plan_.b.column, in);
      std::byte* target = c + bytes(offset_of(batch, plan_.batch_shape, plan_.c_batch_strides) + m * plan_.n + n, out);
      primitive(m_chunk, n_chunk).run(left, right, bias ? bias + bytes(n, in) : nullptr, target);
    });
  }

  // The packed form of a frozen b, made once for the buffer: products of all numbers of rows share it.
  std::shared_ptr<PackedWeight> packed(transom_buffer& buffer, size_t offset, const std::byte* b) const {
    std::vector<int64_t> key = {
        static_cast<int64_t>(offset), plan_.k, plan_.n, plan_.b.row, plan_.b.column, plan_.b.dtype, *stored_};
    append_layout(key, layout_);
    return packed_copy(buffer, key, [&] { return pack(b); });
  }

 private:
  // The layout of the packed matrix, in which the columns of a chunk must be one stretch of memory that has the chunk's
  // own layout; else columns are not cut.
  void lay_out() {
    const auto layout = [&](bool last_n) { return MatrixProduct::find(shape(false, last_n, true))->b_desc(); };
    Grid whole = grid_;
    whole.n_step = plan_.n;
    whole.n_chunks = 1;
    const Grid cut = std::exchange(grid_, whole);
    layout_ = layout(false);
    grid_ = cut;
    for (const bool last_n : {false, true}) {
      if (grid_.n_chunks == 1) return;
      const memory::desc chunk = layout(last_n);
      const bool alike =
          chunk.get_format_kind() == memory::format_kind::blocked && chunk.get_strides() == layout_.get_strides() &&
          chunk.get_inner_blks() == layout_.get_inner_blks() && chunk.get_inner_idxs() == layout_.get_inner_idxs();
      const int64_t outermost = static_cast<int64_t>(chunk.get_size()) * layout_.get_padded_dims()[1];
      if (!alike || outermost != static_cast<int64_t>(layout_.get_size()) * chunk.get_padded_dims()[1]) grid_ = whole;
    }
  }

  size_t bytes_before(int64_t column) const {
    return layout_.get_size() / static_cast<size_t>(layout_.get_padded_dims()[1]) * static_cast<size_t>(column);
  }

  MatrixShape shape(bool last_m, bool last_n, bool packed) const {
    const int64_t m = last_m ? plan_.m - (grid_.m_chunks - 1) * grid_.m_step : grid_.m_step;
    const int64_t n = last_n ? plan_.n - (grid_.n_chunks - 1) * grid_.n_step : grid_.n_step;
    return {m,       n,      plan_.k, plan_.a.row, plan_.a.column, plan_.b.row, plan_.b.column,
            plan_.n, input_, output_, plan_.bias,  packed};
  }

  const MatrixProduct& primitive(int64_t m_chunk, int64_t n_chunk) const {
    return *primitives_[m_chunk + 1 == grid_.m_chunks][n_chunk + 1 == grid_.n_chunks];
  }

  std::shared_ptr<PackedWeight> pack(const std::byte* b) const {
    auto made = std::make_shared<PackedMatrix>();
    std::vector<std::byte> cast, computed;  // the weight as the node reads it, and as the library does
    const auto count = static_cast<size_t>(plan_.b.count);
    if (*stored_ != plan_.b.dtype) {
      cast.resize(count * element_size(plan_.b.dtype));
      convert(*stored_, b, plan_.b.dtype, cast.data(), plan_.b.count);
      b = cast.data();
    }
    if (plan_.b.dtype != input_) {
      computed.resize(count * element_size(input_));
      convert(plan_.b.dtype, b, input_, computed.data(), plan_.b.count);
      b = computed.data();
    }
    made->values = allocate_packed(layout_.get_size());
    const int64_t blocks = chunk_count(plan_.n, kColumnBlock);
    const auto pieces = static_cast<int64_t>(std::clamp<size_t>(thread_count(), 1, static_cast<size_t>(blocks)));
    parallel_for(static_cast<size_t>(pieces), [&](size_t piece) {
      const auto i = static_cast<int64_t>(piece);
      const int64_t begin = blocks * i / pieces * kColumnBlock;
      const int64_t columns = std::min(blocks * (i + 1) / pieces * kColumnBlock, plan_.n) - begin;
      const memory::desc from({plan_.k, columns}, library_dtype(input_), memory::dims{plan_.b.row, plan_.b.column});
      const size_t offset = static_cast<size_t>(begin * plan_.b.column) * element_size(input_);
      Reorder(from, layout_.submemory_desc({plan_.k, columns}, {0, begin})).run(b + offset, made->values.get());
    });
    return made;
  }

  ProductPlan plan_;
  Grid grid_;
  transom_dtype input_, output_;
  std::optional<transom_dtype> stored_;
  memory::desc layout_;  // of the packed b
  std::shared_ptr<const MatrixProduct> primitives_[2][2];
};

// ---- a few rows

// Up to how many rows own loops are faster. A packed frozen weight moves that point; measured on Zen 4.
int64_t most_few_rows(transom_dtype dtype, bool frozen) {
  if (!frozen) return 8;
  return dtype == TRANSOM_BFLOAT16 && library_computes(dtype) ? 0 : 4;
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
  const std::vector<int64_t> key = {static_cast<int64_t>(arguments.input_offsets[1]), b.count, stored, b.dtype};
  return packed_copy(*arguments.input_buffers[1], key, [&] {
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
  auto chunks =
      std::make_shared<const ChunkedProduct>(plan, input, output, pack ? std::optional(weight->dtype) : std::nullopt);
  Kernel kernel{fmt::format("onednn matmul {}{}", dtype_name(input), pack ? ", packed" : ""),
                [=](const Arguments& arguments) {
                  std::byte* scratch = arguments.scratch;
                  const std::byte* left = a.run(arguments.inputs[0], scratch);
                  scratch += a.scratch();
                  std::shared_ptr<PackedWeight> packed;
                  if (pack)
                    packed =
                        chunks->packed(*arguments.input_buffers[1], arguments.input_offsets[1], arguments.inputs[1]);
                  const std::byte* right = pack ? nullptr : b.run(arguments.inputs[1], scratch);
                  scratch += b.scratch();
                  const std::byte* bias = plan.bias ? arguments.inputs[2] : nullptr;
                  if (bias_bytes) {
                    widen(plan.a.dtype, bias, reinterpret_cast<float*>(scratch), plan.n);
                    bias = scratch;
                    scratch += bias_bytes;
                  }
                  std::byte* c = narrow_output ? scratch : arguments.outputs[0];
                  chunks->run(left, right, bias, c, static_cast<const PackedMatrix*>(packed.get()));
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

Kernel make_product(const Node& node, const ProductPlan& plan) {
  if (plan.batch * plan.m * plan.n == 0) return {"nothing", [](const Arguments&) {}};
  if (plan.k == 0) return {"fill", [plan](const Arguments& arguments) { zero_depth(plan, arguments); }};
  if (plan.a.dtype == TRANSOM_FLOAT64 || !is_floating(plan.a.dtype)) return plain_kernel(plan);
  if (few_rows(plan, node.frozen_origin(1).has_value())) return few_rows_kernel(node, plan);
  return library_kernel(node, plan);
}

Kernel make_dot_general(const Node& node) { return make_product(node, plan_dot_general(node)); }
Kernel make_linear(const Node& node) { return make_product(node, plan_linear(node)); }

}  // namespace

void add_product_kernels(KernelTable& table) {
  table["dot_general"] = make_dot_general;
  table["linear"] = make_linear;
}

}  // namespace transom::cpu
