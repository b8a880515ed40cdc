// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/column_sums.h"

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

constexpr int64_t kMostPieces = 64;
constexpr int64_t kPieceElements = 1 << 14;
constexpr int64_t kColumns = 1024;  // that one task adds over the pieces

}  // namespace

RowPieces pieces_of_column_sums(int64_t rows, int64_t width) {
  const int64_t wanted = std::clamp<int64_t>(rows * width / kPieceElements, 1, kMostPieces);
  const int64_t together = (rows + kRowsTogether - 1) / kRowsTogether;
  return {rows, std::max<int64_t>((together + wanted - 1) / wanted, 1) * kRowsTogether};
}

AddRows add_rows_function(transom_dtype dtype) {
  const VectorKernels& kernels = vector_kernels();
  if (dtype == TRANSOM_FLOAT32) return kernels.add_rows_f32;
  return dtype == TRANSOM_FLOAT16 ? kernels.add_rows_f16 : kernels.add_rows_bf16;
}

void add_pieces(float* partial, int64_t pieces, int64_t stride, int64_t width, transom_dtype dtype, std::byte* y) {
  parallel_ranges(width, kColumns, [&](int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(end - begin);
    float* sums = partial + begin;
    if (pieces == 0) std::fill_n(sums, n, 0.0f);
    else
      vector_kernels().add_rows_f32(sums, sums + stride, static_cast<size_t>(stride), static_cast<size_t>(pieces - 1),
                                    n);
    std::byte* to = y + static_cast<size_t>(begin) * element_size(dtype);
    if (dtype == TRANSOM_FLOAT32) std::memcpy(to, sums, n * sizeof(float));
    else store_function(dtype)(to, sums, nullptr, nullptr, n);
  });
}

}  // namespace transom::cpu
