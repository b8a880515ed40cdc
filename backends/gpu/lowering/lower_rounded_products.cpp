// SPDX-License-Identifier: Apache-2.0
// Products of packed weights with inputs that are rounded to 8 bits, over the units for bytes. A launch rounds x to
// codes, with a scale for each 32 of them; then a group makes a tile of 64 x 64 or 32 x 64 results: what 32 codes of x
// and of the weight give is exact in i32, and joins the sum in f32 by both scales. Codes that stand for a table's
// numbers are no integers in general: they meet the numbers that rounded inputs are. Inputs and codes of e4m3 go the
// same way over the units for these: 32 products at a time, whose sum joins the one in f32, since units add fewer
// places.
#include <algorithm>

#include "gpu/lowering/products.h"
#include "gpu/lowering/result_text.h"
#include "gpu/source/tile_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kBlock = 32, kWordsOfBlock = kBlock / 4;  // inputs that have a scale of x

// x as codes i8 [pieces, rows, blocks, 32], what does not exist as 0; x is the sum of scale * code over the pieces.
struct RoundedInputs {
  int64_t rows, depth, blocks, pieces;
  int64_t halves;        // of a block, that have a sum
  bool by_row, numbers;  // numbers: not codes but f32 [rows, depth]
  bool float8;           // codes are e4m3
  Operand codes;
  Operand scales = {};  // f32 [pieces, rows, blocks]
  Operand sums = {};    // f32 [pieces, rows, blocks, halves], of scale * code; of minima
  bool summed = false;
};

// The largest magnitude of each row.
Operand largest_of_rows(Emitter& emitter, const Work& work, const RoundedInputs& x, bool wide) {
  const Operand made = emitter.scratch(x.rows * 4);
  const transom_dtype dtype = work.node.input(0).dtype;
  KernelText text(wide);
  const std::string from = text.address(work.inputs[0], storage_type(dtype)), to = text.address(made, "float");
  const std::string depth = text.number(x.depth);
  text.local("float", "memory", kGroup);
  text.line("for (idx row = GROUP; row < {}; row += GROUPS) {{\nfloat most = 0;", text.number(x.rows));
  text.line("for (idx i = THREAD; i < {}; i += {}) {{", depth, kGroup);
  text.line("const float v = fabs({});\nmost = most != most || v < most ? most : v;\n}}",
            load(text, dtype, from, fmt::format("row * {} + i", depth)));
  text.line("memory[THREAD] = most;\nBARRIER;\nfor (int span = {}; span > 0; span >>= 1) {{", kGroup / 2);
  text.line("if (THREAD < span) {{\nconst float a = memory[THREAD], b = memory[THREAD + span];");
  text.line("memory[THREAD] = a != a || b < a ? a : b;\n}}\nBARRIER;\n}}");
  text.line("if (THREAD == 0) {}[row] = memory[0];\nBARRIER;\n}}", to);
  emitter.launch(text, std::min<int64_t>(x.rows, 1 << 14), "largest of rows");
  return made;
}

// Eight threads round a block, four neighbours each.
void launch_rounding(Emitter& emitter, const Work& work, const RoundedInputs& x, bool wide) {
  const Operand largest = x.by_row ? largest_of_rows(emitter, work, x, wide) : Operand{};
  const transom_dtype dtype = work.node.input(0).dtype;
  KernelText text(wide);
  const std::string from = text.address(work.inputs[0], storage_type(dtype)),
                    to = text.address(x.codes, x.numbers ? "float" : "u32");
  const std::string scales = x.numbers ? "" : text.address(x.scales, "float"),
                    sums = x.summed ? text.address(x.sums, "float") : "",
                    mosts = x.by_row ? text.address(largest, "float") : "";
  const std::string depth = text.number(x.depth), blocks = text.number(x.blocks), all = text.number(x.rows * x.blocks);
  text.local("float", "memory", kGroup);
  text.line("for (idx first = GROUP * 32; first < {0}; first += GROUPS * 32) {{", all);
  text.line(
      "const idx block = first + THREAD / 8, quad = THREAD % 8, row = block / {0}, k = block % {0} * 32 + quad * 4;",
      blocks);
  text.line("float x[4], total[4];\nUNROLL for (int j = 0; j < 4; ++j) {{\ntotal[j] = 0;");
  text.line("x[j] = block < {} && k + j < {} ? {} : 0;\n}}", all, depth,
            load(text, dtype, from, fmt::format("row * {} + k + j", depth)));
  for (int64_t piece = 0; piece < x.pieces; ++piece) {
    text.line("{{\nfloat most = 0;");
    if (x.by_row) {
      text.line("most = block < {} ? {}[row] : 0;", all, mosts);
    } else {
      text.line(
          "UNROLL for (int j = 0; j < 4; ++j) {{ const float v = fabs(x[j]); "
          "most = most != most || v < most ? most : v; }}");
      text.line("BARRIER;\nmemory[THREAD] = most;\nBARRIER;");
      text.line(
          "for (int i = 0; i < 8; ++i) {{ const float v = memory[THREAD / 8 * 8 + i]; "
          "most = most != most || v < most ? most : v; }}");
    }
    // What is not finite makes all results of its row NaN.
    text.line("float scale = most / {};\nscale += scale - scale;", x.float8   ? "448.0f"
                                                                   : x.by_row ? "127.5f"
                                                                              : "127.0f");
    text.line("const float divisor = scale == 0 ? 1 : scale;\nu32 word = 0;\nfloat sum = 0;");
    if (x.float8) {
      text.line("UNROLL for (int j = 0; j < 4; ++j) word |= {}(x[j] / divisor) << (8 * j);", text.use("to_fp8"));
      text.line("if (block < {}) {{\n{}[block * {} + quad] = fp8_word(word);", all, to, kWordsOfBlock);
      text.line("if (quad == 0) {}[block] = scale * FP8_UNIT;\n}}\n}}", scales);
      continue;
    }
    text.line("UNROLL for (int j = 0; j < 4; ++j) {{\nfloat step = rint(x[j] / divisor);");
    text.line("step = step < 127 ? step : 127;\nstep = step > -128 ? step : -128;");  // NaN is a number from here on
    text.line("const int code = (int)step;\nword |= (u32)(code & 255) << (8 * j);\nsum += step;");
    text.line("total[j] += scale * step;\nx[j] -= scale * step;\n}}");
    if (!x.numbers) {
      const std::string at = text.number(piece * x.rows * x.blocks);
      text.line("if (block < {}) {}[({} + block) * {} + quad] = word;", all, to, at, kWordsOfBlock);
      text.line("if (block < {} && quad == 0) {}[{} + block] = scale;", all, scales, at);
      if (x.summed) {
        text.line("BARRIER;\nmemory[THREAD] = sum;\nBARRIER;\nif (block < {} && quad < {}) {{", all, x.halves);
        text.line(
            "float of_part = 0;\nfor (int i = 0; i < {0}; ++i) of_part += memory[THREAD / 8 * 8 + (int)quad * {0} + "
            "i];",
            8 / x.halves);
        text.line("{}[({} + block) * {} + quad] = scale * of_part;\n}}", sums, at, x.halves);
      }
    }
    text.line("}}");
  }
  if (x.numbers)
    text.line("UNROLL for (int j = 0; j < 4; ++j) if (block < {} && k + j < {}) {}[row * {} + k + j] = total[j];", all,
              depth, to, depth);
  text.line("}}");
  emitter.launch(text, std::min<int64_t>(divided_up(x.rows * x.blocks, 32), 1 << 14),
                 x.numbers ? "round" : "round to bytes");
}

// ints = A B of one block, or of one half of it: `half` is 0, 1 or, for the whole, empty.
void multiply_block(KernelText& text, const Results& ints, const Tile& a, const Tile& b, const std::string& half) {
  const std::string across = ints.across();
  text.line("UNROLL for (int j = 0; j < {}; ++j) {{\nu32 of_b[M_B];\nUNROLL for (int w = 0; w < M_B; ++w) {{", across);
  text.line("const int word = M_B_WORD(lane, w);");
  text.line("of_b[w] = {0}{1}[(wave / 2 * {2} * 16 + j * 16 + M_B_COLUMN(lane, w)) * {3} + part * {4} + word]{5};\n}}",
            half.empty() ? "" : fmt::format("word / 4 == {} ? ", half), b.name, across, b.stride(), kWordsOfBlock,
            half.empty() ? "" : " : 0");
  text.line("UNROLL for (int i = 0; i < {}; ++i) {{\nu32 of_a[M_A];", ints.down());
  text.line(
      "UNROLL for (int w = 0; w < M_A; ++w) of_a[w] = {}[(wave % 2 * {} + i * 16 + M_A_ROW(lane, w)) * {} + part * {} "
      "+ M_A_WORD(lane, w)];",
      a.name, ints.rows / 2, a.stride(), kWordsOfBlock);
  text.line("{0}({1}[i * {2} + j], of_a, of_b)\n}}\n}}", ints.kind.multiply, ints.name, across);
}

void launch_product_of_codes(Emitter& emitter, const FragmentProduct& product, const RoundedInputs& x) {
  const PackedCodes& packed = *product.packed;
  const Product& p = product.shape;
  const FragmentKind kind = x.float8 ? float8_fragments() : fragment_kind(TRANSOM_INT8);
  const FragmentKind floats{kind.set, kind.multiply, kind.per_word, "float"};
  const int64_t height = p.rows <= 32 ? 32 : 64, width = 64, words = p.rows <= 32 ? 32 : 16;
  const int64_t parts = words / kWordsOfBlock;  // blocks of a step
  const bool small = packed.bits == 4;
  const Tile right{"right", width, words};
  const Results ints{kind, "ints", height, width}, sums{floats, "sums", height, width};

  KernelText text(product.wide);
  text.use("fragments");
  if (x.float8) text.use("to_fp8");  // and what goes with it
  const std::string codes = text.address(x.codes, "u32"), scales = text.address(x.scales, "float"),
                    of_sums = x.summed ? text.address(x.sums, "float") : "", weight = text.address(packed.codes, "u32"),
                    factors = text.address(packed.scales, storage_type(packed.scale_type)),
                    minima = packed.minima ? text.address(*packed.minima, storage_type(packed.scale_type)) : "";
  ResultText results(text, product);
  const std::string rows = text.number(p.rows), columns = text.number(p.columns), blocks = text.number(x.blocks),
                    groups = text.number(divided_up(packed.inputs, packed.group)), group = text.number(packed.group);
  const std::string column_tiles = text.number(divided_up(p.columns, width)),
                    row_tiles = text.number(divided_up(p.rows, height));
  std::vector<Tile> left;
  for (int64_t piece = 0; piece < x.pieces; ++piece) {
    left.push_back({fmt::format("left{}", piece), height, words});
    declare_tile(text, left.back());
    text.local("float", fmt::format("scales{}", piece), height * parts);
    if (x.summed) text.local("float", fmt::format("totals{}", piece), height * parts * x.halves);
  }
  declare_tile(text, right);
  text.local("float", "factors", width * parts * x.halves);
  if (x.summed) text.local("float", "leasts", width * parts * x.halves);
  const std::string vector = text.vector_type("u32", 4);

  text.line("for (idx tile = GROUP; tile < {} * {}; tile += GROUPS) {{", row_tiles, column_tiles);
  text.line("const idx row0 = tile % {0} * {1}, column0 = tile / {0} * {2};", row_tiles, height, width);
  declare_waves(text, kind);
  declare_results(text, sums), clear_results(text, sums);
  text.line("for (idx block0 = 0; block0 < {}; block0 += {}) {{\nBARRIER;", blocks, parts);
  for (int64_t piece = 0; piece < x.pieces; ++piece) {
    const std::string at = text.number(piece * x.rows * x.blocks);
    text.line("{{");
    declare_registers(text, left[static_cast<size_t>(piece)], "brought");
    fetch_tile(text, left[static_cast<size_t>(piece)], kind, true, "block0 * 32", [&] {
      text.line("const idx r = row0 + line, block = k / 32;\nif (r < {} && block < {}) {{", rows, blocks);
      text.line("const {0} got = VECTOR({0}, {1} + ({2} + r * {3} + block) * {4} + k % 32 / 4);", vector, codes, at,
                blocks, kWordsOfBlock);
      text.line("UNROLL for (int j = 0; j < 4; ++j) brought[at + j] = got.at[j];");
      text.line("}} else UNROLL for (int j = 0; j < 4; ++j) brought[at + j] = 0;");
    });
    put_tile(text, left[static_cast<size_t>(piece)], true, "brought");
    text.line("}}");
    text.line("for (int i = THREAD; i < {}; i += {}) {{", height * parts, kGroup);
    text.line("const idx r = row0 + i / {0}, block = block0 + i % {0};\nconst int there = r < {1} && block < {2};",
              parts, rows, blocks);
    text.line("scales{}[i] = there ? {}[{} + r * {} + block] : 0;", piece, scales, at, blocks);
    if (x.summed)
      text.line(
          "for (int h = 0; h < {0}; ++h) totals{1}[i * {0} + h] = there ? {2}[({3} + r * {4} + block) * {0} + h] : 0;",
          x.halves, piece, of_sums, at, blocks);
    text.line("}}");
  }
  text.line("{{");
  declare_registers(text, right, "brought");
  fetch_tile(text, right, kind, false, "block0 * 32", [&] {
    text.line("const idx n = column0 + line, block = k / 32;\nUNROLL for (int j = 0; j < 4; ++j) {{\nu32 word = 0;");
    text.line("if (n < {} && block < {}) {{\nconst int sub = (int)(k % 32) / 4 + j;", columns, blocks);
    text.line("word = {}[((n / 16 * {} + block) * {} + {}) * 16 + n % 16];", weight, blocks, small ? 4 : 8,
              small ? "sub % 4" : "sub");
    if (small) text.line("word = word >> (sub >= 4 ? 4 : 0) & 0x0F0F0F0Fu;");
    // Less 8 or 128, each byte by itself; codes of 4 bits with minima count from 0.
    if (x.float8) {  // behind the end of the depth may be what is no number
      text.line("const idx over = k + j * 4 + 4 - {};", text.number(packed.inputs));
      text.line("if (over > 0) word = over < 4 ? word & 0xFFFFFFFFu >> (8 * over) : 0;\nword = fp8_word(word);");
    } else if (!small) text.line("word ^= 0x80808080u;");
    else if (!packed.minima) text.line("word = ((word | 0x80808080u) - 0x08080808u) ^ 0x80808080u;");
    text.line("}}\nbrought[at + j] = word;\n}}");
  });
  put_tile(text, right, false, "brought");
  text.line("}}");
  text.line("for (int i = THREAD; i < {}; i += {}) {{", width * parts * x.halves, kGroup);
  text.line("const idx n = column0 + i % {0}, part = i / {0}, k = block0 * 32 + part * {1};", width, kBlock / x.halves);
  text.line("const int there = n < {} && k < {};\nconst idx of_group = (n / 16 * {} + k / {}) * 16 + n % 16;", columns,
            text.number(packed.inputs), groups, group);
  text.line("const float factor = there ? {} : 0;\nfactors[i] = factor;",
            load(text, packed.scale_type, factors, "of_group"));
  if (x.summed)
    text.line("leasts[i] = there ? {} {}: 0;", load(text, packed.scale_type, minima, "of_group"),
              small ? "" : "+ 128.0f * factor ");
  text.line("}}\nBARRIER;");
  text.line("for (int part = 0; part < {}; ++part) {{", parts);
  for (int64_t piece = 0; piece < x.pieces; ++piece)
    for (int64_t half = 0; half < x.halves; ++half) {
      text.line("{{");
      declare_results(text, ints), clear_results(text, ints);
      multiply_block(text, ints, left[static_cast<size_t>(piece)], right, x.halves == 1 ? "" : fmt::format("{}", half));
      for_results(text, ints, [&](const std::string& value) {
        const std::string of_column = fmt::format("[(part * {} + {}) * {} + column]", x.halves, half, width);
        text.line("sums[f][e] += scales{}[row * {} + part] * (factors{} * (float){});", piece, parts, of_column, value);
        if (x.summed)
          text.line("sums[f][e] += totals{0}[(row * {1} + part) * {2} + {3}] * leasts{4};", piece, parts, x.halves,
                    half, of_column);
      });
      text.line("}}");
    }
  text.line("}}\n}}");
  for_results(text, sums, [&](const std::string& sum) {
    text.line("if (row0 + row < {} && column0 + column < {}) {{\nfloat value = {};", rows, columns, sum);
    if (product.bias)
      text.line("value += {};", load(text, product.bias_type,
                                     text.address(*product.bias, storage_type(product.bias_type)), "column0 + column"));
    text.line("const idx at = (row0 + row) * {} + column0 + column;", columns);
    results.write();
    text.line("}}");
  });
  text.line("}}");
  const int64_t tiles = divided_up(p.rows, height) * divided_up(p.columns, width);
  emitter.launch(text, std::min<int64_t>(tiles, 1 << 16),
                 fmt::format("product of {} {}x{}{}", x.float8 ? "float8" : "bytes", height, width, results.label()));
}

}  // namespace

void launch_rounded_product(Emitter& emitter, const Work& work, const PackedNode& packed) {
  const std::string& activations = work.node.attributes().text("activations");
  FragmentProduct product = packed.product();
  RoundedInputs x{product.shape.rows,
                  packed.codes.inputs,
                  divided_up(packed.codes.inputs, kBlock),
                  activations == "int16" ? 2 : 1,
                  packed.codes.group < kBlock ? 2 : 1,
                  activations == "int8_token" || activations == "float8",
                  packed.codes.values != nullptr,
                  activations == "float8",
                  {}};
  if (x.numbers) {
    x.codes = emitter.scratch(x.rows * x.depth * 4);
    launch_rounding(emitter, work, x, product.wide);
    product.x = x.codes;
    product.shape.from = TRANSOM_FLOAT32;
    return launch_fragment_product(emitter, product);
  }
  x.summed = packed.codes.minima != nullptr;
  x.codes = emitter.scratch(x.pieces * x.rows * x.blocks * kBlock);
  x.scales = emitter.scratch(x.pieces * x.rows * x.blocks * 4);
  if (x.summed) x.sums = emitter.scratch(x.pieces * x.rows * x.blocks * x.halves * 4);
  launch_rounding(emitter, work, x, product.wide);
  launch_product_of_codes(emitter, product, x);
}

}  // namespace transom::gpu
