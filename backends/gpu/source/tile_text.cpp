// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/tile_text.h"

namespace transom::gpu {

std::string fast_condition(transom_dtype dtype, const std::string& base, const std::vector<std::string>& strides) {
  std::string all;
  for (const std::string& stride : strides) all += (all.empty() ? "" : " | ") + stride;
  return fmt::format("(((u64)({}) & 15) == 0 && ({}) % {} == 0)", base, all, 16 / size_of(storage_type(dtype)));
}

void declare_tile(KernelText& text, const Tile& tile) { text.local("u32", tile.name, tile.lines * tile.stride()); }

void declare_registers(KernelText& text, const Tile& tile, const std::string& registers) {
  text.line("u32 {}[{}];", registers, 4 * tile.chunks());
}

namespace {

// The loop over a thread's chunks, with "line" and "quad", its four words, of each.
void begin_chunks(KernelText& text, const Tile& tile, bool deep) {
  text.line("UNROLL for (int own = 0; own < {}; ++own) {{\nconst int at = 4 * own, place = (int)THREAD + own * {};",
            tile.chunks(), kGroup);
  if (deep) text.line("const int line = place / {0}, quad = place % {0};", tile.words / 4);
  else text.line("const int line = place % {0}, quad = place / {0};", tile.lines);
}

}  // namespace

void fetch_tile(KernelText& text, const Tile& tile, const FragmentKind& kind, bool deep, const std::string& k0,
                const std::function<void()>& words) {
  begin_chunks(text, tile, deep);
  text.line("const idx k = {} + quad * {};", k0, 4 * kind.per_word);
  words();
  text.line("}}");
}

void fetch_tile(KernelText& text, const Tile& tile, const TileSource& from, const std::string& r0,
                const std::string& k0, const std::string& registers) {
  const FragmentKind kind = fragment_kind(from.dtype);
  const std::string vector = text.vector_type("u32", 4);
  fetch_tile(text, tile, kind, from.deep, k0, [&] {
    text.line("const idx r = {} + line;", r0);
    if (from.deep && !from.gather) {
      text.line("if ({}) {{\nif (r < {} && k < {}) {{", from.fast, from.lines, from.depth);
      text.line("const {0} got = VECTOR({0}, {1} + {2});", vector, from.base, from.place("r", "k"));
      text.line("UNROLL for (int j = 0; j < 4; ++j) {}[at + j] = got.at[j]{};", registers,
                from.dtype == TRANSOM_UINT8 ? " ^ 0x80808080u" : "");
      text.line("}} else UNROLL for (int j = 0; j < 4; ++j) {}[at + j] = 0;\n}} else", registers);
    }
    text.line("UNROLL for (int j = 0; j < 4; ++j) {{\nu32 word = 0;");
    text.line("UNROLL for (int e = 0; e < {0}; ++e) {{\nconst idx n = k + j * {0} + e;", kind.per_word);
    text.line("if (r < {} && n < {}) {{", from.lines, from.depth);
    const auto [place, exists] = from.gather ? from.gather("r", "n") : std::pair(from.place("r", "n"), std::string());
    const std::string value = fmt::format("{}[{}]", from.base, place);
    const std::string bits = from.dtype == TRANSOM_FLOAT32 ? fmt::format("as_uint({})", value)
                             : from.dtype == TRANSOM_INT8  ? fmt::format("(u32)(u8){}", value)
                             : from.dtype == TRANSOM_UINT8 ? fmt::format("(u32){} ^ 128", value)
                                                           : fmt::format("(u32){}", value);
    const bool filled = !exists.empty() && !from.outside.empty();
    text.line("{}word |= ({}) << (e * {});\n}}", exists.empty() || filled ? "" : "if (" + exists + ") ",
              filled ? fmt::format("{} ? {} : {}", exists, bits, from.outside) : bits, 32 / kind.per_word);
    text.line("}}\n{}[at + j] = word;\n}}", registers);
  });
}

void put_tile(KernelText& text, const Tile& tile, bool deep, const std::string& registers) {
  begin_chunks(text, tile, deep);
  text.line("UNROLL for (int j = 0; j < 4; ++j) {}[line * {} + quad * 4 + j] = {}[at + j];\n}}", tile.name,
            tile.stride(), registers);
}

void bring_tile(KernelText& text, const Tile& tile, const TileSource& from, const std::string& r0,
                const std::string& k0) {
  text.line("{{");
  declare_registers(text, tile, "brought");
  fetch_tile(text, tile, from, r0, k0, "brought");
  put_tile(text, tile, from.deep, "brought");
  text.line("}}");
}

std::string Results::across() const { return fmt::format("({} * {}_WAVE / 32)", columns / 64, kind.set); }

void declare_waves(KernelText& text, const FragmentKind& kind) {
  text.use("fragments");
  text.line("const int lane = (int)THREAD % {0}_WAVE, wave = (int)THREAD / {0}_WAVE;", kind.set);
}

void declare_results(KernelText& text, const Results& results) {
  text.line("{} {}[{} * {}][{}_C];", results.kind.sum, results.name, results.down(), results.across(),
            results.kind.set);
}

void clear_results(KernelText& text, const Results& results) {
  text.line("UNROLL for (int f = 0; f < {} * {}; ++f) UNROLL for (int e = 0; e < {}_C; ++e) {}[f][e] = 0;",
            results.down(), results.across(), results.kind.set, results.name);
}

void multiply_tiles(KernelText& text, const Results& results, const Tile& a, const Tile& b, int64_t words,
                    const std::string& a_word, const Tile* rest) {
  const std::string &set = results.kind.set, across = results.across();
  text.line("for (int step = 0; step < {}; step += 8) {{", words);
  for (const Tile* right : {&b, rest}) {
    if (!right) continue;
    text.line("{{\nu32 of_b[{}][{}_B];", across, set);
    text.line("UNROLL for (int j = 0; j < {0}; ++j) UNROLL for (int w = 0; w < {1}_B; ++w) of_b[j][w] = ", across, set);
    text.line("{0}[(wave / 2 * {1} * 16 + j * 16 + {2}_B_COLUMN(lane, w)) * {3} + step + {2}_B_WORD(lane, w)];",
              right->name, across, set, right->stride());
    text.line("UNROLL for (int i = 0; i < {}; ++i) {{\nu32 of_a[{}_A];", results.down(), set);
    text.line("UNROLL for (int w = 0; w < {}_A; ++w) of_a[w] = ", set);
    text.line("{0}[(wave % 2 * {1} + i * 16 + {2}_A_ROW(lane, w)) * {3} + {4} + step + {2}_A_WORD(lane, w)];", a.name,
              results.rows / 2, set, a.stride(), a_word);
    text.line("UNROLL for (int j = 0; j < {0}; ++j) {1}({2}[i * {0} + j], of_a, of_b[j])\n}}\n}}", across,
              results.kind.multiply, results.name);
  }
  text.line("}}");
}

void add_columns(KernelText& text, const Results& whole, const Tile& b, int64_t words) {
  const std::string across = whole.across();
  text.line("for (int step = 0; step < {}; step += 8) UNROLL for (int j = 0; j < {}; ++j) {{", words, across);
  text.line("u32 ones[M_A], of_b[M_B];\nUNROLL for (int w = 0; w < M_A; ++w) ones[w] = 0x01010101u;");
  text.line(
      "UNROLL for (int w = 0; w < M_B; ++w) of_b[w] = {0}[(wave / 2 * {1} * 16 + j * 16 + M_B_COLUMN(lane, w)) * {2} + "
      "step + M_B_WORD(lane, w)];",
      b.name, across, b.stride());
  text.line("M_MULTIPLY_I8({}[j], ones, of_b)\n}}", whole.name);
}

void write_place(KernelText& text, const Results& results) {
  const std::string across = results.across(), &set = results.kind.set;
  text.line("const int row = wave % 2 * {} + f / {} * 16 + {}_C_ROW(lane, e);", results.rows / 2, across, set);
  text.line("const int column = (wave / 2 * {0} + f % {0}) * 16 + {1}_C_COLUMN(lane, e);", across, set);
}

void for_results(KernelText& text, const Results& results, const std::function<void(const std::string& value)>& body) {
  const std::string across = results.across(), &set = results.kind.set;
  text.line("UNROLL for (int f = 0; f < {} * {}; ++f) UNROLL for (int e = 0; e < {}_C; ++e) {{", results.down(), across,
            set);
  write_place(text, results);
  body(fmt::format("{}[f][e]", results.name));
  text.line("}}");
}

}  // namespace transom::gpu
