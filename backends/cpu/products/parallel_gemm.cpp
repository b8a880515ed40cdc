// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/parallel_gemm.h"

#include <algorithm>
#include <vector>

#include "cpu/device/threads.h"
#include "cpu/kernels/movement/copy.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/few_pair_rows.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kColumnBlock = 64;       // of the library's packed layouts; chunks of columns are multiples of it
constexpr int64_t kFewestRows = 16;        // of a chunk
constexpr int64_t kFewestFrozenRows = 32;  // the same where b is frozen

int64_t chunk_count(int64_t extent, int64_t step) { return (extent + step - 1) / step; }

enum class Cut { kColumnsFirst, kRowsFirst, kRows, kNothing };

// If b changes, columns are cut first: the threads then share no part of b, which is the operand that the library packs
// at each call. If it is frozen, rows, as long as they are enough: the library reads its own layout only where the rows
// of a result follow each other, and parts of columns have to be copied into their places.
Grid choose_grid(const ProductPlan& plan, Cut cut) {
  const auto threads = static_cast<int64_t>(thread_count());
  Grid grid{plan.m, plan.n, 1, 1};
  if (plan.batch >= 4 * threads || threads == 1 || cut == Cut::kNothing) return grid;
  const auto cut_rows = [&](int64_t chunks, int64_t least) {
    grid.m_step = chunk_count(plan.m, std::clamp<int64_t>(plan.m / least, 1, chunks));
    grid.m_chunks = chunk_count(plan.m, grid.m_step);
  };
  const auto cut_columns = [&](int64_t chunks) {
    const int64_t column_chunks = std::clamp<int64_t>(plan.n / kColumnBlock, 1, chunks);
    grid.n_step = std::min(chunk_count(chunk_count(plan.n, column_chunks), kColumnBlock) * kColumnBlock, plan.n);
    grid.n_chunks = chunk_count(plan.n, grid.n_step);
  };
  // Twice as many chunks as threads where they stay large: a thread that is held up then costs less.
  const bool large = cut == Cut::kColumnsFirst ? plan.n >= 2 * threads * 384 : plan.m >= 2 * threads * 128;
  const int64_t wanted = chunk_count(large ? 2 * threads : threads, std::max<int64_t>(plan.batch, 1));
  if (cut == Cut::kColumnsFirst) {
    cut_columns(wanted);
    cut_rows(chunk_count(wanted, grid.n_chunks), kFewestRows);
  } else {
    cut_rows(wanted, cut == Cut::kRows ? 1 : kFewestFrozenRows);
    if (cut == Cut::kRowsFirst) cut_columns(chunk_count(wanted, grid.m_chunks));
  }
  return grid;
}

size_t bytes(int64_t elements, size_t size) { return static_cast<size_t>(elements) * size; }

struct PackedMatrix : PackedWeight {
  PackedMemory values;
};

}  // namespace

CutProduct::CutProduct(const ProductPlan& plan, transom_dtype input, transom_dtype output, bool frozen, bool packed)
    : plan_(plan),
      input_(input),
      output_(output),
      frozen_(frozen),
      packed_(packed),
      grid_(choose_grid(plan, frozen ? Cut::kRowsFirst : Cut::kColumnsFirst)) {
  if (packed_) lay_out();
  for (const bool last_m : {false, true})
    for (const bool last_n : {false, true}) primitives_[last_m][last_n] = MatrixProduct::find(shape(last_m, last_n));
}

void CutProduct::run(const std::byte* a, const std::byte* b, const std::byte* bias, std::byte* c) const {
  const size_t in = element_size(input_), out = element_size(output_);
  parallel_for(static_cast<size_t>(plan_.batch * grid_.m_chunks * grid_.n_chunks), [&](size_t task) {
    const auto i = static_cast<int64_t>(task);
    const int64_t n_chunk = i % grid_.n_chunks, m_chunk = i / grid_.n_chunks % grid_.m_chunks;
    const int64_t batch = i / grid_.n_chunks / grid_.m_chunks;
    const int64_t m = m_chunk * grid_.m_step, n = n_chunk * grid_.n_step;
    const std::byte* left = a + bytes(offset_of(batch, plan_.batch_shape, plan_.a.batch_strides) + m * plan_.a.row, in);
    const std::byte* right = columns_from(b, batch, n);
    const std::byte* shift = bias ? bias + bytes(n, in) : nullptr;
    std::byte* target = c + bytes(offset_of(batch, plan_.batch_shape, plan_.c_batch_strides) + m * plan_.n + n, out);
    const MatrixProduct& product = *primitives_[m_chunk + 1 == grid_.m_chunks][n_chunk + 1 == grid_.n_chunks];
    if (!apart()) return product.run(left, right, shift, target);
    const int64_t rows = std::min(grid_.m_step, plan_.m - m);
    const size_t row_bytes = bytes(std::min(grid_.n_step, plan_.n - n), out);
    std::byte* own = thread_scratch(bytes(rows, row_bytes));
    product.run(left, right, shift, own);
    copy_rows(target, bytes(plan_.n, out), own, row_bytes, rows, row_bytes);
  });
}

// The first way of cutting in which the chunks want their b as a stretch of the packed form. The last one cuts nothing.
void CutProduct::lay_out() {
  for (const Cut cut : {Cut::kRowsFirst, Cut::kRows, Cut::kNothing}) {
    const Grid chosen = choose_grid(plan_, cut);
    grid_ = {chosen.m_step, plan_.n, chosen.m_chunks, 1};
    layout_ = MatrixProduct::find(shape(false, false))->b_desc();
    grid_ = chosen;
    bool alike = true;
    for (const bool last_m : {false, true})
      for (const bool last_n : {false, true})
        alike = alike && is_stretch(MatrixProduct::find(shape(last_m, last_n))->b_desc());
    if (alike) return;
  }
}

bool CutProduct::is_stretch(const memory::desc& chunk) const {
  return chunk == layout_ ||
         (chunk.get_format_kind() == memory::format_kind::blocked && chunk.get_strides() == layout_.get_strides() &&
          chunk.get_inner_blks() == layout_.get_inner_blks() && chunk.get_inner_idxs() == layout_.get_inner_idxs() &&
          bytes(layout_.get_padded_dims()[1], chunk.get_size()) ==
              bytes(chunk.get_padded_dims()[1], layout_.get_size()));
}

MatrixShape CutProduct::shape(bool last_m, bool last_n) const {
  const int64_t m = last_m ? plan_.m - (grid_.m_chunks - 1) * grid_.m_step : grid_.m_step;
  const int64_t n = last_n ? plan_.n - (grid_.n_chunks - 1) * grid_.n_step : grid_.n_step;
  const int64_t c_row = apart() ? n : plan_.n;
  return {m,     n,      plan_.k, plan_.a.row, plan_.a.column, plan_.b.row, plan_.b.column,
          c_row, input_, output_, plan_.bias,  packed_};
}

const std::byte* CutProduct::columns_from(const std::byte* b, int64_t batch, int64_t column) const {
  if (packed_) return b + bytes(column, layout_.get_size() / static_cast<size_t>(layout_.get_padded_dims()[1]));
  return b + bytes(offset_of(batch, plan_.batch_shape, plan_.b.batch_strides) + column * plan_.b.column,
                   element_size(input_));
}

const CutProduct& PackedProduct::product() const {
  std::call_once(once_, [&] { product_ = std::make_unique<const CutProduct>(plan_, input_, output_, true, true); });
  return *product_;
}

bool PackedProduct::few_rows() const {
  return input_ == TRANSOM_BFLOAT16 && output_ == plan_.output && multiplies_few_pair_rows(plan_, product().layout());
}

std::shared_ptr<PackedWeight> PackedProduct::weight(transom_buffer& buffer, size_t offset, const std::byte* b,
                                                    bool waits) const {
  std::vector<int64_t> key = {plan_.k, plan_.n, plan_.b.row, plan_.b.column, plan_.b.dtype, stored_};
  if (waits && !used_before(buffer, offset, key)) return nullptr;
  append_layout(key, product().layout());
  return packed_copy(buffer, offset, key, [&] { return pack(b); });
}

void PackedProduct::run(const std::byte* a, const PackedWeight& weight, const std::byte* bias, std::byte* c) const {
  const std::byte* values = static_cast<const PackedMatrix&>(weight).values.get();
  if (few_rows()) multiply_few_pair_rows(plan_, a, values, bias, c);
  else product().run(a, values, bias, c);
}

std::shared_ptr<PackedWeight> PackedProduct::pack(const std::byte* b) const {
  auto made = std::make_shared<PackedMatrix>();
  std::vector<std::byte> cast, computed;  // the weight as the node reads it, and as the library does
  const auto count = static_cast<size_t>(plan_.b.count);
  if (stored_ != plan_.b.dtype) {
    cast.resize(count * element_size(plan_.b.dtype));
    convert(stored_, b, plan_.b.dtype, cast.data(), plan_.b.count);
    b = cast.data();
  }
  if (plan_.b.dtype != input_) {
    computed.resize(count * element_size(input_));
    convert(plan_.b.dtype, b, input_, computed.data(), plan_.b.count);
    b = computed.data();
  }
  const memory::desc& layout = product().layout();
  made->values = allocate_packed(layout.get_size());
  const int64_t blocks = chunk_count(plan_.n, kColumnBlock);
  const auto pieces = std::clamp<int64_t>(static_cast<int64_t>(thread_count()), 1, blocks);
  parallel_for(static_cast<size_t>(pieces), [&](size_t piece) {
    const auto i = static_cast<int64_t>(piece);
    const int64_t begin = blocks * i / pieces * kColumnBlock;
    const int64_t columns = std::min(blocks * (i + 1) / pieces * kColumnBlock, plan_.n) - begin;
    const memory::desc from({plan_.k, columns}, library_dtype(input_), memory::dims{plan_.b.row, plan_.b.column});
    const std::byte* source = b + bytes(begin * plan_.b.column, element_size(input_));
    Reorder(from, layout.submemory_desc({plan_.k, columns}, {0, begin})).run(source, made->values.get());
  });
  return made;
}

}  // namespace transom::cpu
