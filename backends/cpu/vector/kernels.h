// SPDX-License-Identifier: Apache-2.0
// The vectorised loops. Their sources are compiled once for each instruction set; vector_kernels() is the table for the
// best one that this processor has. All pointers may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// How a tile of values is held while it is computed on: bool as u8, f16 and bf16 as f32.
enum Lane { kU8, kI8, kI32, kI64, kU32, kF32, kF64, kLanes };

enum UnaryOp {
  kNeg,
  kAbs,
  kSign,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSqrt,
  kRsqrt,
  kTanh,
  kErf,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kRound,
  kLogicalNot,
  kIsFinite,
  kUnaryOps
};
enum BinaryOp {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMax,
  kMin,
  kRemainder,
  kAnd,
  kOr,
  kXor,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kBinaryOps
};

// y[i] = f(a[i], b[i], c[i]) for i in [0, n); unused operands may be null. y may be one of the operands, if its
// elements have the same size.
using TileFunction = void (*)(void* y, const void* a, const void* b, const void* c, size_t n);

constexpr size_t kSumPiece = 4096;

// Products of small matrices, c [m, columns] = a [m, depth] b. b is packed: panels of `width` columns, in each of them
// words of depth, [words, width]. A word is one f32, or two bf16 that follow each other in depth.
struct PanelProducts {
  size_t width;
  // b [depth, columns] or [columns, depth], with `row` elements from row to row.
  void (*pack)(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns);
  void (*pack_transposed)(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns);
  // c is f32, its columns filled up to whole panels. a is read in whole words: where depth is odd for two numbers a
  // word, one number behind each row's last is read, and must not be infinite or NaN.
  void (*multiply)(float* c, size_t c_row, const void* a, size_t a_row, const uint32_t* panels, size_t m,
                   size_t columns, size_t depth);
  // To numbers of a, where they are no f32; those next to 0 may become 0.
  void (*round)(uint16_t* y, const float* x, size_t n);
};

// What a row of results of a depthwise convolution is made of, with the channels last. Windows move place by place.
struct DepthwiseRow {
  const float* const* x;  // what each row of the window sees, [columns, channels]; null: padding
  const float* w;         // [rows, taps, channels]
  size_t rows, taps;      // of the window
  size_t columns, channels, results;
  size_t dilation;     // along the row
  ptrdiff_t low;       // padding before it
  const float* ahead;  // the row of x that the next row of results is the first to see; null: none
};
constexpr size_t kDepthwiseChannels = 16;  // the widest register

struct VectorKernels {
  const char* name;

  TileFunction unary[kUnaryOps][kLanes];    // null where the operation is not defined
  TileFunction binary[kBinaryOps][kLanes];  // comparisons give u8
  TileFunction select[kLanes];              // a: u8
  TileFunction convert[kLanes][kLanes];     // [from][to]
  TileFunction to_bool[kLanes];
  TileFunction multiply_add;           // f32: a * b + c, the product rounded too, as by two nodes
  TileFunction load_f16, load_bf16;    // 16-bit storage to f32
  TileFunction store_f16, store_bf16;  // f32 to 16-bit storage
  TileFunction round_f16, round_bf16;  // f32 to the nearest value of the 16-bit type, as f32

  // Philox4x32-10: words [first, first + n) of the stream of (seed, offset).
  void (*random_bits)(uint32_t* y, uint64_t seed, uint64_t offset, uint64_t first, size_t n);

  // Reductions of f32. Sums of more than kSumPiece elements are those of two halves.
  float (*sum)(const float* x, size_t n);
  // The sum of each column of x [n, columns], with `stride` elements from row to row: the bits of sum() of the column.
  void (*column_sums)(float* sums, const float* x, size_t stride, size_t n, size_t columns);
  float (*max)(const float* x, size_t n);  // NaN if any is
  float (*min)(const float* x, size_t n);
  float (*dot)(const float* x, const float* y, size_t n);

  // sums[i] += x[r, i] for the rows one after the other; x of the type, `stride` elements from row to row.
  void (*add_rows_f32)(float* sums, const void* x, size_t stride, size_t rows, size_t n);
  void (*add_rows_f16)(float* sums, const void* x, size_t stride, size_t rows, size_t n);
  void (*add_rows_bf16)(float* sums, const void* x, size_t stride, size_t rows, size_t n);

  // Rows of softmax and its gradients; y may be x (or dy).
  void (*softmax)(float* y, const float* x, size_t n);
  void (*log_softmax)(float* y, const float* x, size_t n);
  void (*softmax_gradient)(float* dx, const float* y, const float* dy, size_t n);
  void (*log_softmax_gradient)(float* dx, const float* y, const float* dy, size_t n);

  // Rows of layer_norm. The gradient adds to dscale and dbias.
  void (*layer_norm)(float* y, const float* x, const float* scale, const float* bias, float epsilon, size_t n);
  void (*layer_norm_gradient)(float* dx, float* dscale, float* dbias, const float* x, const float* scale,
                              const float* dy, float epsilon, size_t n);

  // Rows of attention. What the products gave becomes scores, x = cap tanh(x scale / cap) + bias, without the cap where
  // it is 0, and these the weights of their softmax; bias may be null.
  void (*attention_weights)(float* x, const float* bias, float scale, float cap, size_t n);
  void (*drop)(float* y, const float* x, const uint32_t* words, uint32_t bound, float scale, size_t n);
  // dweights becomes scale weights (dweights - shift)
  void (*score_gradient)(float* dweights, const float* weights, float shift, float scale, size_t n);

  PanelProducts panels_f32, panels_bf16;  // null where the processor has no products of bf16
  PanelProducts tiles_bf16;  // by tiles of the processor, with depths of whole tiles; null where it has none

  // Rows in 8-bit integers: y = round(x / scale) + 128, the scale is given back; and y = (sums - surplus) scale scales
  // + bias, where bias may be null.
  float (*quantize_row)(uint8_t* y, const float* x, size_t n);
  void (*dequantize_row)(float* y, const int32_t* sums, const int32_t* surplus, const float* scales, float scale,
                         const float* bias, size_t n);

  // Winograd's transforms of a tile of n channels: of the 4x4 places d that it reads, and of its 4x4 products m to the
  // 2x2 places y. The places of v and m are `step` elements apart.
  void (*winograd_input)(float* v, size_t step, const float* const* d, size_t n);
  void (*winograd_output)(float* const* y, const float* m, size_t step, size_t n);
  // The same of bytes, (byte ^ flip) - zero, and of sums modulo 2^32 that are four times the results.
  void (*winograd_input_bytes)(int16_t* v, size_t step, const uint8_t* const* d, uint8_t flip, int16_t zero, size_t n);
  void (*winograd_output_integers)(float* const* y, const int32_t* m, size_t step, size_t n);

  // A row of results [results, channels] of a depthwise convolution, of at least kDepthwiseChannels.
  void (*depthwise_row)(float* y, const DepthwiseRow& row);

  // y[m, r] = sum over k of x[m, k] w[r, k] for `rows` rows of w; x f32 [m, depth] with m <= 8, y with row stride
  // `y_stride`. For products that are bound by the reading of w.
  void (*rows_f32)(float* y, size_t y_stride, const float* x, const float* w, size_t m, size_t rows, size_t depth);
  void (*rows_bf16)(float* y, size_t y_stride, const float* x, const uint16_t* w, size_t m, size_t rows, size_t depth);
  void (*rows_f16)(float* y, size_t y_stride, const float* x, const uint16_t* w, size_t m, size_t rows, size_t depth);
};

const VectorKernels& vector_kernels();

// One part of the table for each source file that is compiled several times.
namespace portable {
void fill(VectorKernels& kernels);
}
namespace avx2 {
void fill(VectorKernels& kernels);
}
namespace avx512 {
void fill(VectorKernels& kernels);
}
namespace amx {
void fill_tile_panels(VectorKernels& kernels);
}
namespace avx512_bf16 {
void fill_panels(VectorKernels& kernels);
}

}  // namespace transom::cpu
