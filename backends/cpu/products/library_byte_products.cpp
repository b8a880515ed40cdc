// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/library_byte_products.h"

#include <algorithm>
#include <string_view>

#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kWidth = 64, kMostRows = 128;  // of the layout's panels; of a chunk

int64_t whole_panels(int64_t columns) { return (columns + kWidth - 1) / kWidth * kWidth; }

}  // namespace

std::shared_ptr<const LibraryByteProducts> LibraryByteProducts::make(const QuantizedShape& shape, int64_t x_row) {
  const ByteProducts& own = byte_products();
  if (!processor_features().amx_int8 || !library_multiplies_bytes() || own.width != kWidth || own.group != 4)
    return nullptr;
  try {
    std::shared_ptr<const LibraryByteProducts> made(new LibraryByteProducts(shape, x_row));
    return made->fast_ ? made : nullptr;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

LibraryByteProducts::LibraryByteProducts(const QuantizedShape& shape, int64_t x_row) : shape_(shape), x_row_(x_row) {
  const OneThread one_thread;
  const int64_t wanted = std::clamp<int64_t>(shape.n / kWidth, 1, 2 * static_cast<int64_t>(thread_count()));
  n_step_ = std::min(whole_panels((shape.n + wanted - 1) / wanted), shape.n);
  m_step_ = std::min(shape.m, kMostRows);
  for (const bool last_m : {false, true})
    for (const bool last_n : {false, true})
      for (const bool last_k : {false, true})
        products_[last_m][last_n][last_k] = make_product(last_m ? shape.m - (shape.m - 1) / m_step_ * m_step_ : m_step_,
                                                         last_n ? shape.n - (shape.n - 1) / n_step_ * n_step_ : n_step_,
                                                         shape.piece_depth(last_k ? shape.pieces() - 1 : 0));
}

LibraryByteProducts::Product LibraryByteProducts::make_product(int64_t rows, int64_t columns, int64_t depth) {
  Product made;
  made.a = memory::desc({rows, depth}, memory::data_type::u8, memory::dims{x_row_, 1});
  made.b = memory::desc({depth, columns}, memory::data_type::s8, memory::format_tag::BA16a64b4a);
  made.c = memory::desc({rows, columns}, memory::data_type::s32, memory::dims{whole_panels(columns), 1});
  const dnnl::matmul::primitive_desc desc(library_engine(), made.a, made.b, made.c, library_attributes());
  made.scratchpad = desc.scratchpad_desc();
  made.primitive = dnnl::matmul(desc);
  fast_ =
      fast_ &&
      std::string_view(desc.impl_info_str()).starts_with("brg");  // else plain loops, for a layout that is asked for
  return made;
}

void LibraryByteProducts::multiply(const std::byte* x, const QuantizedWeight& weight, int64_t piece, int64_t row,
                                   int64_t column, int32_t* sums) const {
  const Product& product =
      products_[row + m_step_ >= shape_.m][column + n_step_ >= shape_.n][piece + 1 == shape_.pieces()];
  execute(product.primitive,
          {{DNNL_ARG_SRC, product.a, x + row * x_row_ + piece * QuantizedShape::kPiece},
           {DNNL_ARG_WEIGHTS, product.b, weight.panels(piece, column)},
           {DNNL_ARG_DST, product.c, sums}},
          product.scratchpad);
}

}  // namespace transom::cpu
