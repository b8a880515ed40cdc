// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/matrix_product.h"

#include <vector>

#include "cpu/device/lru_cache.h"

namespace transom::cpu {

using dnnl::memory;

MatrixProduct::MatrixProduct(const MatrixShape& s) {
  const OneThread one_thread;
  const memory::data_type input = library_dtype(s.input), output = library_dtype(s.output);
  a_ = memory::desc({s.m, s.k}, input, memory::dims{s.a_row, s.a_column});
  b_ = s.packed ? memory::desc({s.k, s.n}, input, memory::format_tag::any)
                : memory::desc({s.k, s.n}, input, memory::dims{s.b_row, s.b_column});
  c_ = memory::desc({s.m, s.n}, output, memory::dims{s.c_row, 1});
  if (s.bias) bias_ = memory::desc({1, s.n}, input, memory::dims{s.n, 1});
  const dnnl::matmul::primitive_desc made =
      s.bias ? dnnl::matmul::primitive_desc(library_engine(), a_, b_, bias_, c_, library_attributes())
             : dnnl::matmul::primitive_desc(library_engine(), a_, b_, c_, library_attributes());
  b_ = made.weights_desc();
  scratchpad_ = made.scratchpad_desc();
  primitive_ = dnnl::matmul(made);
}

void MatrixProduct::run(const void* a, const void* b, const void* bias, void* c) const {
  execute(primitive_,
          {{DNNL_ARG_SRC, a_, a}, {DNNL_ARG_WEIGHTS, b_, b}, {DNNL_ARG_BIAS, bias_, bias}, {DNNL_ARG_DST, c_, c}},
          scratchpad_);
}

std::shared_ptr<const MatrixProduct> MatrixProduct::find(const MatrixShape& s) {
  constexpr size_t kMost = 1024;  // as many as the library itself keeps
  static LruCache<std::vector<int64_t>, const MatrixProduct> made(kMost);
  return made.find(
      {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row, s.input, s.output, s.bias, s.packed},
      [&] { return std::make_shared<const MatrixProduct>(s); });
}

}  // namespace transom::cpu
