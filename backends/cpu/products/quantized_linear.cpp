// SPDX-License-Identifier: Apache-2.0
// quantized_linear by exact products of integers, so that all processors give the same bits: by the library's product
// of u8 and i8 where that is exact (see library_multiplies_bytes), else by own loops. A few rows are
// multiplied by loops that read the library's layout. A row of x becomes round(x /
// scale), for the library + 128, which comes off again by the sums of the weights' rows. A frozen weight is rounded and
// packed once. integer_linear is the same for inputs and weights that are integers already.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/device/library.h"
#include "cpu/device/memory.h"
#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/byte_rows.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kColumnBlock = 64, kMostRows = 128;        // of a task
constexpr int64_t kRowsOfBlock = 48, kColumnsOfBlock = 768;  // of a task by own panels: sums stay in the second cache
constexpr int64_t kResultsOfPiece = 16 << 10;                // that are read while they are in the caches
constexpr int64_t kMostDepth = 1 << 16;                      // 255 times 127 so often stays below 2^31
constexpr int64_t kFewRows = 16;                             // whose time is that of reading the weights

// i32 [m, n] = u8 [m, k] i8 [k, n], a with `a_row` elements from row to row, the weight in the library's layout.
class IntegerProduct {
 public:
  IntegerProduct(int64_t m, int64_t n, int64_t k, int64_t a_row) {
    const OneThread one_thread;
    a_ = memory::desc({m, k}, memory::data_type::u8, memory::dims{a_row, 1});
    c_ = memory::desc({m, n}, memory::data_type::s32, memory::dims{n, 1});
    b_ = layout(n, k);
    const dnnl::matmul::primitive_desc made(library_engine(), a_, b_, c_, library_attributes());
    scratchpad_ = made.scratchpad_desc();
    primitive_ = dnnl::matmul(made);
    in_byte_panels_ =
        byte_rows() && k % 4 == 0 && b_ == memory::desc({k, n}, memory::data_type::s8, memory::format_tag::BA16a64b4a);
  }
  void run(const void* a, const void* b, void* c) const {
    execute(primitive_, {{DNNL_ARG_SRC, a_, a}, {DNNL_ARG_WEIGHTS, b_, b}, {DNNL_ARG_DST, c_, c}}, scratchpad_);
  }
  const memory::desc& b_desc() const { return b_; }
  // Whether the weight lies in the panels that byte_rows() reads, the last one filled up with 0.
  bool in_byte_panels() const { return in_byte_panels_; }

 private:
  // Of the weight: a frozen one is packed once for any number of rows, so that the layout is that of many.
  static memory::desc layout(int64_t n, int64_t k) {
    return dnnl::matmul::primitive_desc(
               library_engine(), memory::desc({kMostRows, k}, memory::data_type::u8, memory::dims{k, 1}),
               memory::desc({k, n}, memory::data_type::s8, memory::format_tag::any),
               memory::desc({kMostRows, n}, memory::data_type::s32, memory::dims{n, 1}), library_attributes())
        .weights_desc();
  }

  memory::desc a_, b_, c_, scratchpad_;
  dnnl::matmul primitive_;
  bool in_byte_panels_;
};

struct QuantizedWeight : PackedWeight {
  struct Chunk {
    PackedMemory values;
    memory::desc desc;  // of the library's
  };
  std::vector<Chunk> chunks;     // of columns, each with its pieces of depth
  std::vector<float> scales;     // [N]
  std::vector<int32_t> surplus;  // [pieces of depth, N]: what the products have too much
};

struct QuantizedPlan {
  int64_t m, n, k, n_step, n_chunks, m_step, m_chunks, k_step, k_chunks;
  transom_dtype x, w, y;
  bool transposed, bias;
  bool integers;                                            // of integer_linear: x is u8 or i8, w its codes
  int64_t zero_point;                                       // what x counts from, as u8: all scales are 1 then
  bool own;                                                 // the loops, not the library
  std::shared_ptr<const IntegerProduct> products[2][2][2];  // of the library: [last rows][last columns][last depth]

  explicit QuantizedPlan(const Node& node) : own(!library_multiplies_bytes()) {
    const Type &in = node.input(0), &weight = node.input(1);
    integers = weight.dtype == TRANSOM_INT8;
    zero_point = integers ? node.integer("zero_point") + (in.dtype == TRANSOM_INT8 ? 128 : 0) : 128;
    transposed = !integers && node.integer("transposed") != 0;
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
    n_chunks = n_step ? (n + n_step - 1) / n_step : 0;
    m_step = std::min(m, kMostRows);
    m_chunks = m ? (m + m_step - 1) / m_step : 0;
    k_step = std::min(k, kMostDepth);
    k_chunks = k ? (k + k_step - 1) / k_step : 0;
    if (m == 0 || n == 0 || k == 0 || own) return;
    for (const bool last_m : {false, true})
      for (const bool last_n : {false, true})
        for (const bool last_k : {false, true})
          products[last_m][last_n][last_k] = std::make_shared<const IntegerProduct>(
              last_m ? rows(m_chunks - 1) : m_step, last_n ? columns(n_chunks - 1) : n_step,
              last_k ? depth(k_chunks - 1) : k_step, k);
  }

  int64_t rows(int64_t chunk) const { return std::min(m_step, m - chunk * m_step); }
  int64_t columns(int64_t chunk) const { return std::min(n_step, n - chunk * n_step); }
  int64_t depth(int64_t chunk) const { return std::min(k_step, k - chunk * k_step); }
  const IntegerProduct& library_product(int64_t m_chunk, int64_t n_chunk, int64_t k_chunk) const {
    return *products[m_chunk + 1 == m_chunks][n_chunk + 1 == n_chunks][k_chunk + 1 == k_chunks];
  }

  // Whether byte_rows() multiplies these columns.
  bool few_rows(int64_t n_chunk) const {
    return !own && k > 0 && m <= kFewRows && library_product(0, n_chunk, 0).in_byte_panels() &&
           library_product(0, n_chunk, k_chunks - 1).in_byte_panels();
  }
  // From row to row of the sums.
  int64_t sums_row(int64_t n_chunk) const {
    const int64_t count = columns(n_chunk);
    if (own) return panel_columns(count);
    return few_rows(n_chunk) ? (count + kColumnBlock - 1) / kColumnBlock * kColumnBlock : count;
  }

  // Of own loops: columns and depth filled up to what they read and write.
  static int64_t panel_columns(int64_t columns) {
    const auto width = static_cast<int64_t>(vector_kernels().byte_panels.width);
    return (columns + width - 1) / width * width;
  }
  static int64_t even(int64_t depth) { return (depth + 1) / 2 * 2; }

  // Rounded, in the layout of the products. w: [n, k], or [k, n] where it is transposed.
  std::shared_ptr<PackedWeight> quantize(const std::byte* from) const {
    std::vector<float> wide;
    const auto* values = reinterpret_cast<const float*>(from);
    if (!integers && w != TRANSOM_FLOAT32) {
      wide.resize(static_cast<size_t>(n * k));
      widen(w, from, wide.data(), n * k);
      values = wide.data();
    }
    auto made = std::make_shared<QuantizedWeight>();
    made->scales.resize(static_cast<size_t>(n));
    made->surplus.resize(static_cast<size_t>(n * std::max<int64_t>(k_chunks, 1)));
    made->chunks.resize(static_cast<size_t>(n_chunks * k_chunks));
    parallel_for(static_cast<size_t>(n_chunks), [&](size_t index) {
      const auto chunk = static_cast<int64_t>(index);
      const int64_t first = chunk * n_step, count = columns(chunk);
      std::vector<int8_t> rounded(static_cast<size_t>(k * count));  // [k, count]
      for (int64_t i = 0; integers && i < count; ++i) {
        const auto* codes = reinterpret_cast<const int8_t*>(from) + (first + i) * k;
        made->scales[static_cast<size_t>(first + i)] = 1;
        for (int64_t place = 0; place < k; ++place) {
          rounded[static_cast<size_t>(place * count + i)] = codes[place];
          if (!own)
            made->surplus[static_cast<size_t>(place / k_step * n + first + i)] +=
                static_cast<int32_t>(zero_point) * codes[place];
        }
      }
      for (int64_t i = 0; !integers && i < count; ++i) {
        const int64_t column = first + i, stride = transposed ? n : 1;
        const float* row = values + (transposed ? column : column * k);
        float largest = 0;
        bool finite = true;
        for (int64_t place = 0; place < k; ++place) {
          const float size = std::fabs(row[place * stride]);
          finite = finite && std::isfinite(size);
          largest = std::max(largest, size);
        }
        // A row with an infinity or a NaN gives NaN, as in the float64 reference.
        const float scale = finite ? largest * (1.0f / 127.0f) : std::numeric_limits<float>::quiet_NaN();
        const float divisor = scale > 0 ? scale : 1.0f;
        for (int64_t place = 0; place < k; ++place) {
          const auto value = finite ? static_cast<int8_t>(std::nearbyintf(row[place * stride] / divisor)) : int8_t{0};
          rounded[static_cast<size_t>(place * count + i)] = value;
          if (!own) made->surplus[static_cast<size_t>(place / k_step * n + column)] += 128 * value;
        }
        made->scales[static_cast<size_t>(column)] = scale;
      }
      for (int64_t piece = 0; piece < k_chunks; ++piece)
        pack(rounded.data() + piece * k_step * count, chunk, piece,
             made->chunks[static_cast<size_t>(chunk * k_chunks + piece)]);
    });
    return made;
  }

  void pack(const int8_t* rounded, int64_t n_chunk, int64_t k_chunk, QuantizedWeight::Chunk& target) const {
    const int64_t count = columns(n_chunk), places = depth(k_chunk);
    if (own) {
      target.values = allocate_packed(static_cast<size_t>(panel_columns(count) * even(places)));
      vector_kernels().byte_panels.pack(reinterpret_cast<int8_t*>(target.values.get()), rounded,
                                        static_cast<size_t>(places), static_cast<size_t>(count));
      return;
    }
    target.desc = library_product(0, n_chunk, k_chunk).b_desc();
    target.values = allocate_packed(target.desc.get_size());
    Reorder(memory::desc({places, count}, memory::data_type::s8, memory::dims{count, 1}), target.desc)
        .run(rounded, target.values.get());
  }

  // The rows of x in integers: u8 for the library, else i16.
  int64_t row_bytes() const { return own ? even(k) * 2 : k; }
  size_t x_bytes() const { return aligned(static_cast<size_t>(m * row_bytes())); }
  size_t scratch_bytes() const { return x_bytes() + aligned(static_cast<size_t>(m) * sizeof(float)); }

  // Whether the library reads x where it lies.
  bool reads_x() const { return integers && !own && x == TRANSOM_UINT8; }

  // A row of integers as the products read it.
  void take_row(const Arguments& arguments, int64_t row, std::byte* to) const {
    const std::byte* from = arguments.inputs[0] + row * k;
    const uint8_t flip = x == TRANSOM_INT8 ? 0x80 : 0;  // from i8 to u8
    if (!own) {
      for (int64_t i = 0; i < k; ++i) to[i] = from[i] ^ std::byte{flip};
      return;
    }
    auto* words = reinterpret_cast<int16_t*>(to);
    for (int64_t i = 0; i < k; ++i)
      words[i] = static_cast<int16_t>(static_cast<int>(static_cast<uint8_t>(from[i]) ^ flip) - zero_point);
    if (k % 2) words[k] = 0;
  }

  // Returns the scale.
  float quantize_row(const Arguments& arguments, int64_t row, std::byte* to) const {
    if (integers) {
      take_row(arguments, row, to);
      return 1;
    }
    const auto count = static_cast<size_t>(k);
    std::byte* scratch = thread_scratch(count * (sizeof(float) + 1));
    auto* buffer = reinterpret_cast<float*>(scratch);
    const float* from = arguments.input<float>(0) + row * k;
    if (x != TRANSOM_FLOAT32) {
      load_function(x)(buffer, arguments.inputs[0] + row * k * 2, nullptr, nullptr, count);
      from = buffer;
    }
    auto* bytes = reinterpret_cast<uint8_t*>(own ? scratch + count * sizeof(float) : to);
    const float scale = vector_kernels().quantize_row(bytes, from, count);
    if (own) {
      auto* words = reinterpret_cast<int16_t*>(to);
      for (size_t i = 0; i < count; ++i) words[i] = static_cast<int16_t>(bytes[i] - 128);
      if (count % 2) words[count] = 0;
    }
    return scale;
  }

  // The sums of one piece of depth, [rows, c_row].
  void multiply(const std::byte* rounded, const QuantizedWeight& weight, int64_t m_chunk, int64_t n_chunk,
                int64_t k_chunk, int32_t* sums, int64_t c_row) const {
    const std::byte* values = weight.chunks[static_cast<size_t>(n_chunk * k_chunks + k_chunk)].values.get();
    const std::byte* left = rounded + m_chunk * m_step * row_bytes() + k_chunk * k_step * (own ? 2 : 1);
    if (!own && !few_rows(n_chunk)) return library_product(m_chunk, n_chunk, k_chunk).run(left, values, sums);
    if (!own) {
      const auto width = static_cast<int64_t>(byte_rows()->width), places = depth(k_chunk);
      const int64_t panel = (places + 63) / 64 * 64 * width;
      for (int64_t column = 0; column < columns(n_chunk); column += width)
        byte_rows()->multiply(sums + column, static_cast<size_t>(c_row), reinterpret_cast<const uint8_t*>(left),
                              static_cast<size_t>(k), reinterpret_cast<const int8_t*>(values) + column / width * panel,
                              static_cast<size_t>(m), static_cast<size_t>(places / 4));
      return;
    }
    vector_kernels().byte_panels.multiply(sums, static_cast<size_t>(c_row), reinterpret_cast<const int16_t*>(left),
                                          static_cast<size_t>(even(k)), reinterpret_cast<const int8_t*>(values),
                                          static_cast<size_t>(rows(m_chunk)), static_cast<size_t>(columns(n_chunk)),
                                          static_cast<size_t>(depth(k_chunk)));
  }

  void run(const Arguments& arguments, const QuantizedWeight& weight) const {
    std::byte* rounded = reads_x() ? arguments.inputs[0] : arguments.scratch;
    auto* scales = reinterpret_cast<float*>(arguments.scratch + x_bytes());
    if (reads_x()) {
      std::fill_n(scales, m, 1.0f);
    } else {
      parallel_ranges(m, std::max<int64_t>((1 << 14) / std::max<int64_t>(k, 1), 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          scales[row] = quantize_row(arguments, row, rounded + row * row_bytes());
      });
    }
    if (by_blocks()) return run_blocks(arguments, weight, rounded, scales);
    parallel_for(static_cast<size_t>(m_chunks * n_chunks), [&](size_t task) {
      run_chunk(arguments, weight, rounded, scales, static_cast<int64_t>(task) / n_chunks,
                static_cast<int64_t>(task) % n_chunks);
    });
  }

  // Many rows by the same loops as few: the library, which brings the rows into place at each call, reaches two thirds
  // to nine tenths of their rate (ViT-base, 197 rows). Where there is AMX it is faster.
  bool by_blocks() const {
    if (own || y != TRANSOM_FLOAT32 || m <= kFewRows || k_chunks != 1 || processor_features().amx_int8) return false;
    return library_product(0, 0, 0).in_byte_panels() && library_product(0, n_chunks - 1, 0).in_byte_panels() &&
           (n_chunks == 1 || n_step % kColumnBlock == 0);
  }

  // Tasks of rows and columns whose sums stay in the second cache; as many for each thread.
  void run_blocks(const Arguments& arguments, const QuantizedWeight& weight, const std::byte* rounded,
                  const float* scales) const {
    const auto threads = static_cast<int64_t>(thread_count());
    int64_t in_columns = (n + kColumnsOfBlock - 1) / kColumnsOfBlock;
    if (m <= kRowsOfBlock) in_columns = std::max(in_columns, std::min(threads, n));  // each weight is read once
    const int64_t width = ((n + in_columns - 1) / in_columns + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
    const int64_t across = (n + width - 1) / width;
    int64_t down = (m + kRowsOfBlock - 1) / kRowsOfBlock;
    while (down * across % threads != 0 && down < m) ++down;
    const int64_t height = (m + down - 1) / down;
    parallel_for(static_cast<size_t>(((m + height - 1) / height) * across), [&](size_t task) {
      const int64_t row = static_cast<int64_t>(task) / across * height,
                    first = static_cast<int64_t>(task) % across * width;
      run_block(arguments, weight, rounded, scales, row, std::min(height, m - row), first, std::min(width, n - first));
    });
  }

  void run_block(const Arguments& arguments, const QuantizedWeight& weight, const std::byte* rounded,
                 const float* scales, int64_t row, int64_t height, int64_t first, int64_t count) const {
    const int64_t c_row = (count + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
    if (integers && arguments.reader && c_row == count)
      return run_pieces(arguments, weight, rounded, row, height, first, count);
    const float* added = bias ? arguments.input<float>(2) + first : nullptr;
    if (!arguments.reader && c_row == count) {  // whole panels, where they belong
      for (int64_t column = 0; column < count; column += kColumnBlock)
        byte_rows()->multiply_scaled(arguments.output<float>() + row * n + first + column, static_cast<size_t>(n),
                                     reinterpret_cast<const uint8_t*>(rounded + row * k), static_cast<size_t>(k),
                                     panel_of(weight, first + column), static_cast<size_t>(height),
                                     static_cast<size_t>(k / 4), weight.surplus.data() + first + column, scales + row,
                                     weight.scales.data() + first + column, added ? added + column : nullptr);
      return;
    }
    Scratch scratch(Scratch::bytes_of<int32_t>(height * c_row));
    auto* sums = scratch.take<int32_t>(height * c_row);
    for (int64_t column = first; column < first + count; column += kColumnBlock)
      byte_rows()->multiply(sums + column - first, static_cast<size_t>(c_row),
                            reinterpret_cast<const uint8_t*>(rounded + row * k), static_cast<size_t>(k),
                            panel_of(weight, column), static_cast<size_t>(height), static_cast<size_t>(k / 4));
    float* kept = arguments.reader ? reinterpret_cast<float*>(thread_scratch(
                                         static_cast<size_t>(height * count) * sizeof(float), ScratchUse::kChunk))
                                   : nullptr;
    for (int64_t i = 0; i < height; ++i) {
      float* to = kept ? kept + i * count : arguments.output<float>() + (row + i) * n + first;
      vector_kernels().dequantize_row(to, sums + i * c_row, weight.surplus.data() + first, weight.scales.data() + first,
                                      scales[row + i], added, static_cast<size_t>(count));
    }
    if (kept) read_block(arguments, kept, row, height, first, count);
  }

  const int8_t* panel_of(const QuantizedWeight& weight, int64_t column) const {
    const auto* values =
        reinterpret_cast<const int8_t*>(weight.chunks[static_cast<size_t>(column / n_step)].values.get());
    return values + column % n_step / kColumnBlock * ((k + 63) / 64 * 64 * kColumnBlock);
  }

  void read_block(const Arguments& arguments, const float* kept, int64_t row, int64_t height, int64_t first,
                  int64_t count) const {
    const auto* data = reinterpret_cast<const std::byte*>(kept);
    if (count == n) arguments.reader->read({row * n, height * n, 0, 1, data, sizeof(float)});
    else arguments.reader->read({row * n + first, count, n, height, data, sizeof(float)});
  }

  // Sums of integers that only the reader sees, some rows at a time: they leave the registers as f32, and are still in
  // the caches when they are read.
  void run_pieces(const Arguments& arguments, const QuantizedWeight& weight, const std::byte* rounded, int64_t row,
                  int64_t height, int64_t first, int64_t count) const {
    const int64_t most = std::max<int64_t>(kResultsOfPiece / count / 6, 4) * 6;
    const int64_t pieces = (height + most - 1) / most,
                  together = (height + pieces - 1) / pieces;  // no last one of a row
    auto* kept = reinterpret_cast<float*>(
        thread_scratch(static_cast<size_t>(together * count) * sizeof(float), ScratchUse::kChunk));
    for (int64_t done = 0; done < height; done += together) {
      const int64_t rows = std::min(together, height - done);
      for (int64_t column = first; column < first + count; column += kColumnBlock)
        byte_rows()->multiply_to_floats(kept + column - first, static_cast<size_t>(count),
                                        reinterpret_cast<const uint8_t*>(rounded + (row + done) * k),
                                        static_cast<size_t>(k), panel_of(weight, column), static_cast<size_t>(rows),
                                        static_cast<size_t>(k / 4),
                                        zero_point ? weight.surplus.data() + column : nullptr);
      read_block(arguments, kept, row + done, rows, first, count);
    }
  }

  void run_chunk(const Arguments& arguments, const QuantizedWeight& weight, const std::byte* rounded,
                 const float* scales, int64_t m_chunk, int64_t n_chunk) const {
    const VectorKernels& kernels = vector_kernels();
    const int64_t count = columns(n_chunk), first = n_chunk * n_step, height = rows(m_chunk);
    const int64_t c_row = sums_row(n_chunk);
    const bool deep = k_chunks > 1;
    const auto width = static_cast<size_t>(count);
    Scratch scratch(Scratch::bytes_of<int32_t>(height * c_row) + 2 * Scratch::bytes_of<float>(count) +
                    Scratch::bytes_of<double>(deep ? height * count : 0));
    auto* sums = scratch.take<int32_t>(height * c_row);
    auto* wide_bias = scratch.take<float>(count);
    auto* line = scratch.take<float>(count);
    // What only the reader sees stays with the thread.
    float* kept = arguments.reader ? reinterpret_cast<float*>(thread_scratch(
                                         static_cast<size_t>(height * count) * sizeof(float), ScratchUse::kChunk))
                                   : nullptr;
    auto* totals = scratch.take<double>(deep ? height * count : 0);
    const float* added = nullptr;
    if (bias && y == TRANSOM_FLOAT32) added = arguments.input<float>(2) + first;
    else if (bias) {
      load_function(y)(wide_bias, arguments.inputs[2] + first * 2, nullptr, nullptr, width);
      added = wide_bias;
    }
    // 32 bits do not hold what comes of more depth than kMostDepth.
    std::fill_n(totals, deep ? height * count : 0, 0.0);
    for (int64_t piece = 0; deep && piece < k_chunks; ++piece) {
      multiply(rounded, weight, m_chunk, n_chunk, piece, sums, c_row);
      const int32_t* surplus = weight.surplus.data() + piece * n + first;
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < count; ++j) totals[i * count + j] += sums[i * c_row + j] - surplus[j];
    }
    if (k == 0) std::fill_n(sums, height * c_row, 0);
    else if (!deep) multiply(rounded, weight, m_chunk, n_chunk, 0, sums, c_row);
    const float* column_scales = weight.scales.data() + first;
    for (int64_t i = 0; i < height; ++i) {
      const int64_t row = m_chunk * m_step + i, at = row * n + first;
      float* to = kept ? kept + i * count : y == TRANSOM_FLOAT32 ? arguments.output<float>() + at : line;
      if (!deep) {
        kernels.dequantize_row(to, sums + i * c_row, weight.surplus.data() + first, column_scales, scales[row], added,
                               width);
      } else {
        for (int64_t j = 0; j < count; ++j) {
          const auto total = static_cast<float>(totals[i * count + j]);
          to[j] = std::fma(total, scales[row] * column_scales[j], added ? added[j] : 0.0f);
        }
      }
      if (y != TRANSOM_FLOAT32) store_function(y)(arguments.outputs[0] + at * 2, line, nullptr, nullptr, width);
    }
    if (kept)
      arguments.reader->read(
          {m_chunk * m_step * n + first, count, n, height, reinterpret_cast<const std::byte*>(kept), sizeof(float)});
  }
};

Kernel make_quantized_linear(const Node& node) {
  auto plan = std::make_shared<const QuantizedPlan>(node);
  if (plan->m * plan->n == 0) return {"nothing", [](const Arguments&) {}};
  const bool frozen = node.frozen(1);
  Kernel kernel{fmt::format("{} u8 i8{}", plan->own ? "panels" : "onednn matmul", frozen ? ", packed" : ""),
                [plan, frozen](const Arguments& arguments) {
                  std::shared_ptr<PackedWeight> weight;
                  if (frozen) {
                    weight = packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1],
                                         {plan->integers ? -10 - plan->zero_point : -8, plan->k, plan->n, plan->n_step,
                                          plan->transposed},
                                         [&] { return plan->quantize(arguments.inputs[1]); });
                  } else {
                    weight = plan->quantize(arguments.inputs[1]);
                  }
                  plan->run(arguments, static_cast<const QuantizedWeight&>(*weight));
                },
                plan->scratch_bytes()};
  kernel.has_epilogue = plan->integers;
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
