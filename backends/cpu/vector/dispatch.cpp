// SPDX-License-Identifier: Apache-2.0
// Of each table of vectorised loops, the level that this processor has and TRANSOM_CPU_ISA allows.
#include <initializer_list>

#include "cpu/device/processor.h"
#include "cpu/vector/attention/few_queries.h"
#include "cpu/vector/attention/partial_rows.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/byte_products.h"
#include "cpu/vector/products/code_products.h"
#include "cpu/vector/products/pair_rows.h"
#include "cpu/vector/products/row_products.h"
#include "cpu/vector/scan.h"
#include "cpu/vector/transpose.h"

// A level that is compiled for x86 only.
#if defined(TRANSOM_CPU_X86)
#define TRANSOM_X86(level, fill) level::fill
#else
#define TRANSOM_X86(level, fill) nullptr
#endif

namespace transom::cpu {
namespace {

template <typename Table>
struct Level {
  const char* name;
  bool there;
  void (*fill)(Table&);  // null: not compiled
};

// Of the first level that is there; nothing in it where none is.
template <typename Table>
Table first_of(std::initializer_list<Level<Table>> levels) {
  Table made{};
  for (const Level<Table>& level : levels) {
    if (!level.there || !level.fill) continue;
    level.fill(made);
    if constexpr (requires { made.name; }) made.name = level.name;
    break;
  }
  return made;
}

bool has_avx2() { return processor_features().avx2; }
bool has_avx512() { return processor_features().avx512; }
bool has_avx2_vnni() { return has_avx2() && processor_features().avx2_vnni; }
bool has_avx512_vnni() { return has_avx512() && processor_features().avx512_vnni; }
bool has_avx512_bf16() { return has_avx512() && processor_features().avx512_bf16; }

}  // namespace

const VectorKernels& vector_kernels() {
  static const VectorKernels table = [] {
    VectorKernels made = first_of<VectorKernels>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill)},
                                                  {"avx2", has_avx2(), TRANSOM_X86(avx2, fill)},
                                                  {"portable", true, portable::fill}});
#if defined(TRANSOM_CPU_X86)
    if (has_avx512_bf16()) avx512_bf16::fill_panels(made);
    if (has_avx512_bf16() && processor_features().amx_bf16 && may_use_tiles()) amx::fill_tile_panels(made);
#endif
    return made;
  }();
  return table;
}

const ByteProducts& byte_products() {
  static const auto table =
      first_of<ByteProducts>({{"avx512_vnni", has_avx512_vnni(), TRANSOM_X86(avx512_vnni, fill_byte_products)},
                              {"avx512", has_avx512(), TRANSOM_X86(avx512, fill_byte_products)},
                              {"avx2_vnni", has_avx2_vnni(), TRANSOM_X86(avx2_vnni, fill_byte_products)},
                              {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_byte_products)},
                              {"portable", true, portable::fill_byte_products}});
  return table;
}

const CodeProducts& code_products() {
  static const auto table =
      first_of<CodeProducts>({{"avx512_vnni", has_avx512_vnni(), TRANSOM_X86(avx512_vnni, fill_code_products)},
                              {"avx512", has_avx512(), TRANSOM_X86(avx512, fill_code_products)},
                              {"avx2_vnni", has_avx2_vnni(), TRANSOM_X86(avx2_vnni, fill_code_products)},
                              {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_code_products)},
                              {"portable", true, portable::fill_code_products}});
  return table;
}

const RowProducts& row_products() {
  static const auto table = first_of<RowProducts>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill_row_products)},
                                                   {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_row_products)},
                                                   {"portable", true, portable::fill_row_products}});
  return table;
}

const PairRows* pair_rows() {
  static const auto table =
      first_of<PairRows>({{"avx512_bf16", has_avx512_bf16(), TRANSOM_X86(avx512_bf16, fill_pair_rows)}});
  return table.multiply ? &table : nullptr;
}

const FewQueries& few_queries() {
  static const auto table = first_of<FewQueries>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill_few_queries)},
                                                  {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_few_queries)},
                                                  {"portable", true, portable::fill_few_queries}});
  return table;
}

const PartialRows& partial_rows() {
  static const auto table = first_of<PartialRows>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill_partial_rows)},
                                                   {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_partial_rows)},
                                                   {"portable", true, portable::fill_partial_rows}});
  return table;
}

const ScanKernels& scan_kernels() {
  static const auto table = first_of<ScanKernels>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill_scan)},
                                                   {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_scan)},
                                                   {"portable", true, portable::fill_scan}});
  return table;
}

const TransposedBlocks* transposed_blocks() {
  static const auto table =
      first_of<TransposedBlocks>({{"avx512", has_avx512(), TRANSOM_X86(avx512, fill_transposed_blocks)},
                                  {"avx2", has_avx2(), TRANSOM_X86(avx2, fill_transposed_blocks)}});
  return table.transpose ? &table : nullptr;
}

}  // namespace transom::cpu
