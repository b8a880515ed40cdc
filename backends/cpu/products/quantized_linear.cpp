// SPDX-License-Identifier: Apache-2.0
// quantized_linear by the library's product of u8 and i8. A row of x becomes round(x / scale) + 128; the 128 comes off
// again by the sums of the weights' rows. A frozen weight is rounded and packed once.
#include <cmath>
#include <limits>
#include <map>

#include "cpu/kernels/kernel.h"
#include "cpu/device/library.h"
#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/vector/kernels.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kColumnBlock = 64, kMostRows = 128;  // of a task

// i32 [m, n] = u8 [m, k] i8 [k, n], the weight in the library's layout.
class IntegerProduct {
 public:
  IntegerProduct(int64_t m, int64_t n, int64_t k) {
    use_one_thread();
    a_ = memory::desc({m, k}, memory::data_type::u8, memory::dims{k, 1});
    c_ = memory::desc({m, n}, memory::data_type::s32, memory::dims{n, 1});
    const dnnl::matmul::primitive_desc made(library_engine(), a_,
                                            memory::desc({k, n}, memory::data_type::s8, memory::format_tag::any), c_,
                                            library_attributes());
    b_ = made.weights_desc();
    scratchpad_ = made.scratchpad_desc();
    primitive_ = dnnl::matmul(made);
  }
  void run(const void* a, const void* b, void* c) const {
    execute(primitive_, {{DNNL_ARG_SRC, a_, a}, {DNNL_ARG_WEIGHTS, b_, b}, {DNNL_ARG_DST, c_, c}}, scratchpad_);
  }
  const memory::desc& b_desc() const { return b_; }

 private:
  memory::desc a_, b_, c_, scratchpad_;
  dnnl::matmul primitive_;
};

struct QuantizedWeight : PackedWeight {
  struct Chunk {
    PackedMemory values;
    memory::desc desc;
  };
  std::vector<Chunk> chunks;     // of columns
  std::vector<float> scales;     // [N]
  std::vector<int32_t> surplus;  // [N]: 128 times the sum of the row
};

struct QuantizedPlan {
  int64_t m, n, k, n_step, n_chunks, m_step, m_chunks;
  transom_dtype x, w, y;
  bool transposed, bias;
  std::shared_ptr<const IntegerProduct> products[2][2];  // [last rows][last columns]

  explicit QuantizedPlan(const Node& node) {
    const Type &in = node.input(0), &weight = node.input(1);
    transposed = node.integer("transposed") != 0;
    if (in.rank() == 0 || weight.rank() != 2 || in.shape.back() != weight.shape[transposed ? 0 : 1])
      fail(TRANSOM_INVALID_ARGUMENT, "expected x [..., K] and a weight of depth K, found {} and {}", to_string(in),
           to_string(weight));
    x = in.dtype, w = weight.dtype, y = node.output().dtype;
    k = in.shape.back();
    m = product(in.shape, 0, in.rank() - 1);
    n = weight.shape[transposed ? 1 : 0];
    bias = node.input_count() > 2;
    const auto threads = static_cast<int64_t>(thread_count());
    const int64_t wanted = std::clamp<int64_t>(n / kColumnBlock, 1, 2 * threads);
    n_step = std::min(((n + wanted - 1) / wanted + kColumnBlock - 1) / kColumnBlock * kColumnBlock, n);
    n_chunks = (n + n_step - 1) / n_step;
    m_step = std::min(m, kMostRows);
    m_chunks = m ? (m + m_step - 1) / m_step : 0;
    if (m == 0 || n == 0) return;
    for (const bool last_m : {false, true})
      for (const bool last_n : {false, true})
        products[last_m][last_n] = std::make_shared<const IntegerProduct>(last_m ? rows(m_chunks - 1) : m_step,
                                                                          last_n ? columns(n_chunks - 1) : n_step, k);
  }

  int64_t rows(int64_t chunk) const { return std::min(m_step, m - chunk * m_step); }
  int64_t columns(int64_t chunk) const { return std::min(n_step, n - chunk * n_step); }

  // Rounded, in the layout of the products. w: [n, k], or [k, n] where it is transposed.
  std::shared_ptr<PackedWeight> quantize(const std::byte* from) const {
    std::vector<float> wide;
    const auto* values = reinterpret_cast<const float*>(from);
    if (w != TRANSOM_FLOAT32) {
      wide.resize(static_cast<size_t>(n * k));
      widen(w, from, wide.data(), n * k);
      values = wide.data();
    }
    auto made = std::make_shared<QuantizedWeight>();
    made->scales.resize(static_cast<size_t>(n));
    made->surplus.resize(static_cast<size_t>(n));
    made->chunks.resize(static_cast<size_t>(n_chunks));
    parallel_for(static_cast<size_t>(n_chunks), [&](size_t index) {
      const auto chunk = static_cast<int64_t>(index);
      const int64_t first = chunk * n_step, count = columns(chunk);
      std::vector<int8_t> rounded(static_cast<size_t>(k * count));  // [k, count]
      for (int64_t i = 0; i < count; ++i) {
        const int64_t column = first + i, stride = transposed ? n : 1;
        const float* row = values + (transposed ? column : column * k);
        float largest = 0;
        bool finite = true;
        for (int64_t depth = 0; depth < k; ++depth) {
          const float size = std::fabs(row[depth * stride]);
          finite = finite && std::isfinite(size);
          largest = std::max(largest, size);
        }
        // A row with an infinity or a NaN gives NaN, as in the float64 reference.
        const float scale = finite ? largest * (1.0f / 127.0f) : std::numeric_limits<float>::quiet_NaN();
        const float divisor = scale > 0 ? scale : 1.0f;
        int32_t sum = 0;
        for (int64_t depth = 0; depth < k; ++depth) {
          const auto value = finite ? static_cast<int8_t>(std::nearbyintf(row[depth * stride] / divisor)) : int8_t{0};
          rounded[static_cast<size_t>(depth * count + i)] = value;
          sum += value;
        }
        made->scales[static_cast<size_t>(column)] = scale;
        made->surplus[static_cast<size_t>(column)] = 128 * sum;
      }
      QuantizedWeight::Chunk& target = made->chunks[index];
      target.desc = products[0][chunk + 1 == n_chunks]->b_desc();
      target.values = allocate_packed(target.desc.get_size());
      Reorder(memory::desc({k, count}, memory::data_type::s8, memory::dims{count, 1}), target.desc)
          .run(rounded.data(), target.values.get());
    });
    return made;
  }

  size_t x_bytes() const { return aligned(static_cast<size_t>(m * k)); }
  size_t scratch_bytes() const { return x_bytes() + aligned(static_cast<size_t>(m) * sizeof(float)); }

  void run(const Arguments& arguments, const QuantizedWeight& weight) const {
    auto* rounded = reinterpret_cast<uint8_t*>(arguments.scratch);
    auto* scales = reinterpret_cast<float*>(arguments.scratch + x_bytes());
    const VectorKernels& kernels = vector_kernels();
    const auto depth = static_cast<size_t>(k);
    parallel_ranges(m, std::max<int64_t>((1 << 14) / k, 1), [&](int64_t begin, int64_t end) {
      auto* buffer = reinterpret_cast<float*>(thread_scratch(depth * sizeof(float)));
      for (int64_t row = begin; row < end; ++row) {
        const float* from = arguments.input<float>(0) + row * k;
        if (x != TRANSOM_FLOAT32) {
          load_function(x)(buffer, arguments.inputs[0] + row * k * 2, nullptr, nullptr, depth);
          from = buffer;
        }
        scales[row] = kernels.quantize_row(rounded + row * k, from, depth);
      }
    });
    parallel_for(static_cast<size_t>(m_chunks * n_chunks), [&](size_t task) {
      const int64_t n_chunk = static_cast<int64_t>(task) % n_chunks, m_chunk = static_cast<int64_t>(task) / n_chunks;
      const int64_t count = columns(n_chunk), first = n_chunk * n_step;
      const auto width = static_cast<size_t>(count);
      std::byte* scratch = thread_scratch(static_cast<size_t>(m_step * n_step) * 4 + width * 8);
      auto* sums = reinterpret_cast<int32_t*>(scratch);
      auto* wide_bias = reinterpret_cast<float*>(scratch + static_cast<size_t>(m_step * n_step) * 4);
      float* line = wide_bias + count;
      const float* added = nullptr;
      if (bias && y == TRANSOM_FLOAT32) added = arguments.input<float>(2) + first;
      else if (bias) {
        load_function(y)(wide_bias, arguments.inputs[2] + first * 2, nullptr, nullptr, width);
        added = wide_bias;
      }
      const size_t chunk = static_cast<size_t>(n_chunk);
      products[m_chunk + 1 == m_chunks][n_chunk + 1 == n_chunks]->run(rounded + m_chunk * m_step * k,
                                                                      weight.chunks[chunk].values.get(), sums);
      for (int64_t i = 0; i < rows(m_chunk); ++i) {
        const int64_t row = m_chunk * m_step + i, at = row * n + first;
        float* to = y == TRANSOM_FLOAT32 ? arguments.output<float>() + at : line;
        kernels.dequantize_row(to, sums + i * count, weight.surplus.data() + first, weight.scales.data() + first,
                               scales[row], added, width);
        if (y != TRANSOM_FLOAT32) store_function(y)(arguments.outputs[0] + at * 2, line, nullptr, nullptr, width);
      }
    });
  }
};

Kernel make_quantized_linear(const Node& node) {
  auto plan = std::make_shared<const QuantizedPlan>(node);
  if (plan->m * plan->n == 0) return {"nothing", [](const Arguments&) {}};
  const bool frozen = node.frozen(1);
  return {fmt::format("onednn matmul u8 i8{}", frozen ? ", packed" : ""),
          [plan, frozen](const Arguments& arguments) {
            std::shared_ptr<PackedWeight> weight;
            if (frozen) {
              weight = packed_copy(*arguments.input_buffers[1],
                                   {static_cast<int64_t>(arguments.input_offsets[1]), plan->k, plan->n, plan->n_step,
                                    plan->transposed, -8},
                                   [&] { return plan->quantize(arguments.inputs[1]); });
            } else {
              weight = plan->quantize(arguments.inputs[1]);
            }
            plan->run(arguments, static_cast<const QuantizedWeight&>(*weight));
          },
          plan->scratch_bytes()};
}

}  // namespace

void add_quantized_kernels(KernelTable& table) { table["quantized_linear"] = make_quantized_linear; }

}  // namespace transom::cpu
