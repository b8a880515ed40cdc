// SPDX-License-Identifier: Apache-2.0
// quantized_linear by exact products of bytes, so that all processors give the same bits: by own loops
// (byte_products), and where there is AMX by the library for many rows. A row of x becomes round(x / scale) + 128,
// which comes off again by the sums of the weights' rows. A frozen weight is rounded and packed once. integer_linear is
// the same for inputs and weights that are integers already.
#include <algorithm>
#include <cmath>

#include "cpu/device/threads.h"
#include "cpu/kernels/packed_weight.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/library_byte_products.h"
#include "cpu/products/quantized/quantized_weight.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kRowsOfBlock = 48, kColumnsOfBlock = 768;  // of a task: its sums stay in the second cache
constexpr int64_t kResultsOfPiece = 16 << 10;                // that are read while they are in the caches
constexpr int64_t kFewRows = 16;                             // whose time is that of reading the weights

// Rows and columns of the result.
struct Block {
  int64_t row, height, first, count;
};

class QuantizedPlan {
 public:
  explicit QuantizedPlan(const Node& node)
      : s_(node), x_row_(static_cast<int64_t>(byte_products().padded_depth(static_cast<size_t>(s_.k)))) {
    if (s_.m == 0 || s_.n == 0) return;
    cut();
    if (s_.m <= kFewRows || s_.k == 0) return;
    library_ = LibraryByteProducts::make(s_, x_row_);
    if (library_) height_ = library_->row_step(), width_ = library_->column_step();
  }

  const QuantizedShape& shape() const { return s_; }
  const char* way() const { return library_ ? "onednn" : byte_products().name; }
  // One layout for any number of rows.
  std::vector<int64_t> key() const { return {s_.integers ? -10 - s_.zero_point : -8, s_.k, s_.n, s_.transposed}; }
  std::shared_ptr<QuantizedWeight> pack(const std::byte* weight) const {
    return std::make_shared<QuantizedWeight>(s_, weight);
  }
  size_t scratch_bytes() const { return x_bytes() + aligned(static_cast<size_t>(s_.m) * sizeof(float)); }

  void run(const Arguments& arguments, const QuantizedWeight& weight) const {
    std::byte* rounded = reads_x() ? arguments.inputs[0] : arguments.scratch;
    auto* scales = reinterpret_cast<float*>(arguments.scratch + x_bytes());
    if (reads_x()) {
      std::fill_n(scales, s_.m, 1.0f);
    } else {
      parallel_ranges(s_.m, std::max<int64_t>((1 << 14) / std::max<int64_t>(s_.k, 1), 1),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t row = begin; row < end; ++row)
                          scales[row] = take_row(arguments, row, reinterpret_cast<uint8_t*>(rounded) + row * x_row_);
                      });
    }
    const Operands operands{arguments, weight, rounded, scales};
    const int64_t across = (s_.n + width_ - 1) / width_;
    parallel_for(static_cast<size_t>((s_.m + height_ - 1) / height_ * across), [&](size_t task) {
      const int64_t row = static_cast<int64_t>(task) / across * height_,
                    first = static_cast<int64_t>(task) % across * width_;
      run_block(operands, {row, std::min(height_, s_.m - row), first, std::min(width_, s_.n - first)});
    });
  }

 private:
  struct Operands {
    const Arguments& arguments;
    const QuantizedWeight& weight;
    const std::byte* rounded;  // [m, x_row_]
    const float* scales;       // of the rows

    const float* bias(int64_t first) const { return arguments.input<float>(2) + first; }
  };

  // Into tasks, as many for each thread.
  void cut() {
    const auto threads = static_cast<int64_t>(thread_count()), panel = static_cast<int64_t>(byte_products().width);
    int64_t across = (s_.n + kColumnsOfBlock - 1) / kColumnsOfBlock;
    if (s_.m <= kRowsOfBlock) across = std::max(across, std::min(threads, s_.n));  // each weight is read once
    width_ = ((s_.n + across - 1) / across + panel - 1) / panel * panel;
    across = (s_.n + width_ - 1) / width_;
    int64_t down = (s_.m + kRowsOfBlock - 1) / kRowsOfBlock;
    while (down * across % threads != 0 && down < s_.m) ++down;
    height_ = (s_.m + down - 1) / down;
  }

  // Whether x is read where it lies.
  bool reads_x() const { return s_.integers && s_.x == TRANSOM_UINT8 && x_row_ == s_.k; }
  size_t x_bytes() const { return aligned(static_cast<size_t>(s_.m * x_row_)); }

  // A row as the products read it. Returns its scale.
  float take_row(const Arguments& arguments, int64_t row, uint8_t* to) const {
    const auto count = static_cast<size_t>(s_.k);
    std::fill(to + s_.k, to + x_row_, uint8_t{0});
    if (s_.integers) {
      const auto* from = reinterpret_cast<const uint8_t*>(arguments.inputs[0]) + row * s_.k;
      const uint8_t flip = s_.x == TRANSOM_INT8 ? 0x80 : 0;  // from i8 to u8
      for (size_t i = 0; i < count; ++i) to[i] = from[i] ^ flip;
      return 1;
    }
    const float* from = arguments.input<float>(0) + row * s_.k;
    if (s_.x != TRANSOM_FLOAT32) {
      auto* wide = reinterpret_cast<float*>(thread_scratch(count * sizeof(float)));
      load_function(s_.x)(wide, arguments.inputs[0] + row * s_.k * 2, nullptr, nullptr, count);
      from = wide;
    }
    return vector_kernels().quantize_row(to, from, count);
  }

  // Columns of a block in whole panels.
  static int64_t padded(int64_t count) {
    return static_cast<int64_t>(byte_products().panels_of(static_cast<size_t>(count)) * byte_products().width);
  }

  ByteOperands panels(const Operands& o, const Block& b, int64_t piece, bool takes_off) const {
    ByteOperands made{};
    made.a = reinterpret_cast<const uint8_t*>(o.rounded) + b.row * x_row_ + piece * QuantizedShape::kPiece;
    made.a_row = static_cast<size_t>(x_row_);
    made.panels = o.weight.panels(piece, b.first), made.panel_step = o.weight.panel_step(piece);
    made.rows = static_cast<size_t>(b.height), made.depth = static_cast<size_t>(s_.piece_depth(piece));
    made.panel_count = byte_products().panels_of(static_cast<size_t>(b.count));
    made.surplus = takes_off && s_.zero_point ? o.weight.surplus(piece) + b.first : nullptr;
    return made;
  }

  void run_block(const Operands& o, const Block& b) const {
    const bool direct = !library_ && s_.y == TRANSOM_FLOAT32 && s_.pieces() == 1 && padded(b.count) == b.count;
    if (direct && o.arguments.reader && s_.integers) return run_pieces(o, b);
    if (direct && !o.arguments.reader) {  // whole panels, where they belong
      byte_products().multiply_scaled(o.arguments.output<float>() + b.row * s_.n + b.first, static_cast<size_t>(s_.n),
                                      panels(o, b, 0, true), o.scales + b.row, o.weight.scales() + b.first,
                                      s_.bias ? o.bias(b.first) : nullptr);
      return;
    }
    const int64_t c_row = padded(b.count), deep = s_.pieces() > 1 ? b.height * c_row : 0;
    Scratch scratch(Scratch::bytes_of<int32_t>(b.height * c_row) + Scratch::bytes_of<double>(deep) +
                    2 * Scratch::bytes_of<float>(b.count));
    auto* sums = scratch.take<int32_t>(b.height * c_row);
    auto* totals = scratch.take<double>(deep);
    auto* line = scratch.take<float>(b.count);
    auto* wide_bias = scratch.take<float>(b.count);
    std::fill_n(totals, deep, 0.0);
    if (s_.k == 0) std::fill_n(sums, b.height * c_row, 0);
    for (int64_t piece = 0; piece < s_.pieces(); ++piece) {
      if (library_) library_->multiply(o.rounded, o.weight, piece, b.row, b.first, sums);
      else byte_products().multiply(sums, static_cast<size_t>(c_row), panels(o, b, piece, false));
      const int32_t* surplus = o.weight.surplus(piece) + b.first;
      for (int64_t i = 0; i < deep; ++i) totals[i] += sums[i] - surplus[i % c_row];
    }
    store(o, b, sums, deep ? totals : nullptr, line, wide_bias);
  }

  // Sums, or totals of several pieces less their surplus, to rows of y.
  void store(const Operands& o, const Block& b, const int32_t* sums, const double* totals, float* line,
             float* wide_bias) const {
    const int64_t c_row = padded(b.count);
    const auto count = static_cast<size_t>(b.count);
    const ChunkReader* reader = o.arguments.reader;
    // What only the reader sees stays with the thread.
    auto* kept = reader ? reinterpret_cast<float*>(thread_scratch(
                              static_cast<size_t>(b.height * b.count) * sizeof(float), ScratchUse::kChunk))
                        : nullptr;
    const float* bias = nullptr;
    if (s_.bias && s_.y == TRANSOM_FLOAT32) bias = o.bias(b.first);
    else if (s_.bias)
      load_function(s_.y)(wide_bias, o.arguments.inputs[2] + b.first * 2, nullptr, nullptr, count), bias = wide_bias;
    const float* scales = o.weight.scales() + b.first;
    for (int64_t i = 0; i < b.height; ++i) {
      const int64_t at = (b.row + i) * s_.n + b.first;
      float* to = kept ? kept + i * b.count : s_.y == TRANSOM_FLOAT32 ? o.arguments.output<float>() + at : line;
      if (!totals)
        vector_kernels().dequantize_row(to, sums + i * c_row, o.weight.surplus(0) + b.first, scales,
                                        o.scales[b.row + i], bias, count);
      for (int64_t j = 0; totals && j < b.count; ++j)
        to[j] =
            std::fma(static_cast<float>(totals[i * c_row + j]), o.scales[b.row + i] * scales[j], bias ? bias[j] : 0.0f);
      if (s_.y != TRANSOM_FLOAT32) store_function(s_.y)(o.arguments.outputs[0] + at * 2, line, nullptr, nullptr, count);
    }
    if (reader) show(*reader, kept, b);
  }

  // Sums of integers that only the reader sees, some rows at a time: they leave the registers as f32, and are still in
  // the caches when they are read.
  void run_pieces(const Operands& o, const Block& b) const {
    const int64_t most = std::max<int64_t>(kResultsOfPiece / b.count / 6, 4) * 6;
    const int64_t pieces = (b.height + most - 1) / most,
                  together = (b.height + pieces - 1) / pieces;  // no last one of a row
    auto* kept = reinterpret_cast<float*>(
        thread_scratch(static_cast<size_t>(together * b.count) * sizeof(float), ScratchUse::kChunk));
    for (int64_t done = 0; done < b.height; done += together) {
      const Block piece{b.row + done, std::min(together, b.height - done), b.first, b.count};
      byte_products().multiply_to_floats(kept, static_cast<size_t>(b.count), panels(o, piece, 0, true));
      show(*o.arguments.reader, kept, piece);
    }
  }

  void show(const ChunkReader& reader, const float* kept, const Block& b) const {
    const auto* data = reinterpret_cast<const std::byte*>(kept);
    if (b.count == s_.n) reader.read({b.row * s_.n, b.height * s_.n, 0, 1, data, sizeof(float)});
    else reader.read({b.row * s_.n + b.first, b.count, s_.n, b.height, data, sizeof(float)});
  }

  QuantizedShape s_;
  int64_t x_row_;                   // bytes of a rounded row, in whole groups of byte_products
  int64_t height_ = 1, width_ = 1;  // of tasks
  std::shared_ptr<const LibraryByteProducts> library_;
};

Kernel make_quantized_linear(const Node& node) {
  auto plan = std::make_shared<const QuantizedPlan>(node);
  if (plan->shape().m * plan->shape().n == 0) return {"nothing", [](const Arguments&) {}};
  Kernel kernel = packed_kernel(fmt::format("bytes u8 i8, {}", plan->way()), plan, node.frozen(1));
  kernel.scratch_bytes = plan->scratch_bytes();
  kernel.has_epilogue = plan->shape().integers;
  return kernel;
}

Kernel make_integer_linear(const Node& node) {
  const transom_dtype x = node.input(0).dtype;
  if ((x != TRANSOM_UINT8 && x != TRANSOM_INT8) || node.input(1).dtype != TRANSOM_INT8 ||
      node.output().dtype != TRANSOM_FLOAT32)
    fail(TRANSOM_INVALID_ARGUMENT, "expected u8 or i8 by i8 to f32, found {}, {} and {}", to_string(node.input(0)),
         to_string(node.input(1)), to_string(node.output()));
  return make_quantized_linear(node);
}

}  // namespace

void add_quantized_kernels(KernelTable& table) {
  table["quantized_linear"] = {make_quantized_linear, claims_equal_floats};
  table["integer_linear"] = {make_integer_linear, claims_always};
}

}  // namespace transom::cpu
