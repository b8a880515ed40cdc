// SPDX-License-Identifier: Apache-2.0
// Matrix products on the MME. Inputs of 16 and 8 bits are exact in f32; sums are kept in f32, in the order of the
// common dim; the result is rounded once. What becomes of f32 inputs is a setting (TRANSOM_SYNAPSE_MME_F32).
#include "products.h"

#include <algorithm>
#include <bit>

#include "../configuration.h"
#include "elementwise.h"
#include "kernels/movement/movement.h"

namespace synapse_emulator {
namespace {

const Types kMmeTypes = {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_fp8_143, syn_type_fp8_152};

// Keeps `bits` of the fraction, to nearest even.
float shortened(float value, int bits) {
  if (!std::isfinite(value)) return value;
  uint32_t all = std::bit_cast<uint32_t>(value);
  const int drop = 23 - bits;
  all += (1u << (drop - 1)) - 1 + ((all >> drop) & 1);
  return std::bit_cast<float>(all & ~((1u << drop) - 1));
}

// c[m][n] = sum over k of a[m][k] * b[k][n]: four rows by sixteen columns at a time.
[[gnu::always_inline]] inline void multiply_tiles(const float* a, const float* b, float* c, int64_t rows, int64_t inner,
                                                  int64_t columns) {
  constexpr int64_t kRows = 4, kColumns = 16;
  for (int64_t column = 0; column < columns; column += kColumns) {
    const int64_t width = std::min(kColumns, columns - column);
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t height = std::min(kRows, rows - row);
      float sum[kRows][kColumns] = {};
      if (width == kColumns && height == kRows) {
        for (int64_t k = 0; k < inner; ++k) {
          const float* line = b + k * columns + column;
          for (int64_t i = 0; i < kRows; ++i) {
            const float factor = a[(row + i) * inner + k];
            for (int64_t j = 0; j < kColumns; ++j) sum[i][j] += factor * line[j];
          }
        }
      } else {
        for (int64_t k = 0; k < inner; ++k)
          for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j) sum[i][j] += a[(row + i) * inner + k] * b[k * columns + column + j];
      }
      for (int64_t i = 0; i < height; ++i) std::copy(sum[i], sum[i] + width, c + (row + i) * columns + column);
    }
  }
}

// The same loops for processors with wider vectors; sums differ by the rounding of fused multiply-adds only.
using Multiply = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t);
void multiply_plain(const float* a, const float* b, float* c, int64_t rows, int64_t inner, int64_t columns) {
  multiply_tiles(a, b, c, rows, inner, columns);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const float* a, const float* b, float* c, int64_t rows, int64_t inner,
                                               int64_t columns) {
  multiply_tiles(a, b, c, rows, inner, columns);
}
#endif
Multiply widest_multiply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_plain;
}

}  // namespace

void load_for_mme(const Operand& operand, int64_t begin, int64_t count, float* out) {
  load<float>(operand.type, operand.data, begin, 1, count, out);
  const MmeSingle mode = configuration().mme_single;
  if (operand.type != syn_type_single || mode == MmeSingle::kFull) return;
  const int bits = mode == MmeSingle::kTf32 ? 10 : 7;
  for (int64_t i = 0; i < count; ++i) out[i] = shortened(out[i], bits);
}

void require_mme_type(const Node& node, const Operand& operand, const char* what) {
  require(std::find(kMmeTypes.begin(), kMmeTypes.end(), operand.type) != kMmeTypes.end(), node, what, " has type ",
          name_of(operand.type), "; the MME multiplies floating types");
}

void matrix_product(const float* a, const float* b, float* c, int64_t rows, int64_t inner, int64_t columns) {
  static const Multiply multiply = widest_multiply();
  parallel_for((rows + 31) / 32, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, 32 * inner * columns / 64)),
               [&](int64_t from, int64_t to) {
                 const int64_t begin = from * 32, end = std::min(rows, to * 32);
                 multiply(a + begin * inner, b, c + begin * columns, end - begin, inner, columns);
               });
}

void transpose_matrix(const float* in, float* out, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < columns; j0 += kTile)
      for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i)
        for (int64_t j = j0; j < std::min(columns, j0 + kTile); ++j) out[j * rows + i] = in[i * columns + j];
}

namespace {

// A [K, M] (row-major M x K), B [N, K] (row-major K x N), C [N, M].
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t rows = 0, inner = 0, columns = 0;
};

// `kind`: 0 plain, 1 gradient of A, 2 gradient of B; decides what missing params mean.
Product product_of(const Node& node, int kind) {
  Product product;
  if (node.params.empty()) {
    product.transpose_a = kind == 2;
    product.transpose_b = kind == 1;
  } else {
    const auto params = params_of<GemmParams>(node);
    product.transpose_a = params.transpose_a;
    product.transpose_b = params.transpose_b;
  }
  return product;
}

Product checked_product(const Node& node, int kind, const Operand& a, const Operand& b, const Operand& c) {
  Product product = product_of(node, kind);
  product.inner = a.sizes[product.transpose_a ? 1 : 0];
  product.rows = a.sizes[product.transpose_a ? 0 : 1];
  const int64_t inner = b.sizes[product.transpose_b ? 0 : 1];
  product.columns = b.sizes[product.transpose_b ? 1 : 0];
  require(product.inner == inner, node, "the common dim is ", product.inner, " in A ", text_of(a.sizes), " and ", inner,
          " in B ", text_of(b.sizes));
  require(c.sizes[0] == product.columns && c.sizes[1] == product.rows, node, "C ", text_of(c.sizes), ", expected [",
          product.columns, ", ", product.rows, ", ...]");
  return product;
}

template <int kKind, bool kBatched>
void check_product(const Node& node) {
  require_counts(node, 2, kKind == 0 ? 3 : 2, 1, 1);
  const Operand &a = node.input(0), &b = node.input(1), &c = node.output(0);
  require_mme_type(node, a, "A");
  require_mme_type(node, c, "C");
  require_type(node, b, a.type, "B");
  if constexpr (kBatched) {
    require(c.sizes.rank >= 3 && a.sizes.rank <= c.sizes.rank && b.sizes.rank <= c.sizes.rank, node, "ranks ",
            a.sizes.rank, " and ", b.sizes.rank, " to ", c.sizes.rank);
    require(a.sizes.rank >= 2 && b.sizes.rank >= 2, node, "a product takes matrices");
    for (int dim = 2; dim < c.sizes.rank; ++dim) {
      const int64_t widest = std::max(a.sizes[dim], b.sizes[dim]);
      require((a.sizes[dim] == widest || a.sizes[dim] == 1) && (b.sizes[dim] == widest || b.sizes[dim] == 1) &&
                  c.sizes[dim] == widest,
              node, "batch dim ", dim, ": ", a.sizes[dim], " and ", b.sizes[dim], " to ", c.sizes[dim]);
    }
  } else {
    require(a.sizes.rank == 2 && b.sizes.rank == 2 && c.sizes.rank == 2, node, "operands have two dims, found ",
            a.sizes.rank, ", ", b.sizes.rank, " and ", c.sizes.rank);
  }
  checked_product(node, kKind, a, b, c);
  if (node.has_input(2)) {
    require(node.input(2).sizes.rank == 1 && node.input(2).sizes[0] == c.sizes[0], node, "the bias ",
            text_of(node.input(2).sizes), ", expected [", c.sizes[0], "]");
    require(is_floating(node.input(2).type), node, "the bias has type ", name_of(node.input(2).type));
  }
}

template <int kKind>
void run_product(const Node& node) {
  const Operand &a = node.input(0), &b = node.input(1), &c = node.output(0);
  const Product product = checked_product(node, kKind, a, b, c);
  const int64_t a_size = product.rows * product.inner, b_size = product.inner * product.columns;
  const int64_t c_size = product.rows * product.columns;
  const int64_t batches = c_size == 0 ? 0 : c.elements() / c_size;
  std::vector<float> bias;
  if (node.has_input(2)) {
    bias.resize(static_cast<size_t>(product.columns));
    load<float>(node.input(2).type, node.input(2).data, 0, 1, product.columns, bias.data());
  }
  Sizes outer[3];
  for (int i = 0; i < 3; ++i) {
    const Sizes& from = i == 0 ? a.sizes : i == 1 ? b.sizes : c.sizes;
    outer[i].rank = c.sizes.rank - 2;
    for (int dim = 2; dim < c.sizes.rank; ++dim) outer[i].size[static_cast<size_t>(dim - 2)] = from[dim];
  }
  parallel_for(batches, 1, [&](int64_t from, int64_t to) {
    std::vector<float> left(static_cast<size_t>(a_size)), right(static_cast<size_t>(b_size));
    std::vector<float> turned(static_cast<size_t>(std::max(a_size, b_size))), result(static_cast<size_t>(c_size));
    for (int64_t batch = from; batch < to; ++batch) {
      int64_t rest = batch, a_index = 0, b_index = 0, a_step = 1, b_step = 1;
      for (int dim = 0; dim < outer[2].rank; ++dim) {
        const int64_t index = rest % outer[2][dim];
        rest /= outer[2][dim];
        if (outer[0][dim] > 1) a_index += index * a_step;
        if (outer[1][dim] > 1) b_index += index * b_step;
        a_step *= outer[0][dim];
        b_step *= outer[1][dim];
      }
      load_for_mme(a, a_index * a_size, a_size, left.data());
      if (product.transpose_a) {
        transpose_matrix(left.data(), turned.data(), product.inner, product.rows);
        std::copy(turned.begin(), turned.begin() + a_size, left.begin());
      }
      load_for_mme(b, b_index * b_size, b_size, right.data());
      if (product.transpose_b) {
        transpose_matrix(right.data(), turned.data(), product.columns, product.inner);
        std::copy(turned.begin(), turned.begin() + b_size, right.begin());
      }
      matrix_product(left.data(), right.data(), result.data(), product.rows, product.inner, product.columns);
      if (!bias.empty())
        for (int64_t i = 0; i < c_size; ++i)
          result[static_cast<size_t>(i)] += bias[static_cast<size_t>(i % product.columns)];
      store<float>(c.type, c.data, batch * c_size, 1, c_size, result.data());
    }
  });
}

double product_flops(const Node& node) {
  const Product product = product_of(node, node.guid.find("dedx") != std::string::npos   ? 1
                                           : node.guid.find("dedw") != std::string::npos ? 2
                                                                                         : 0);
  return 2.0 * static_cast<double>(node.output(0).elements()) *
         static_cast<double>(node.input(0).sizes[product.transpose_a ? 1 : 0]);
}

}  // namespace

void add_products(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kMme, kNoSuffix, check, run, product_flops, false});
  };
  add("gemm", check_product<0, false>, run_product<0>);
  add("gemm_dedx", check_product<1, false>, run_product<1>);
  add("batch_gemm", check_product<0, true>, run_product<0>);
  add("batch_gemm_dedx", check_product<1, true>, run_product<1>);
}

}  // namespace synapse_emulator
