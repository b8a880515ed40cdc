// SPDX-License-Identifier: Apache-2.0
// Products over matrix units: a group makes a tile of 128 x 128, 64 x 64 or 32 x 64 results, while the words of the
// next step are on their way to registers.
#include <algorithm>

#include "gpu/lowering/products.h"
#include "gpu/lowering/result_text.h"
#include "gpu/source/tile_text.h"

namespace transom::gpu {
namespace {

struct TileShape {
  int64_t rows, columns, words;
};

// Tiles that are large, where they are enough to keep the device busy; low ones for a few rows.
TileShape tile_shape(const Product& p, uint32_t units) {
  if (p.rows <= 32) return {32, 64, 32};
  if (p.batch * divided_up(p.rows, 128) * divided_up(p.columns, 128) >= 2 * std::max<int64_t>(units, 1))
    return {128, 128, 16};
  return {64, 64, 16};
}

// "r" and "k" as the place of codes, and what stands beside them: declares "base", the row in its block of 16 and the
// value function's inputs.
class CodeText {
 public:
  CodeText(KernelText& text, const PackedCodes& packed)
      : text_(text),
        packed_(packed),
        codes_(text.address(packed.codes, "u32")),
        scales_(text.address(packed.scales, storage_type(packed.scale_type))),
        depth_blocks_(text.number(divided_up(packed.inputs, 32))),
        groups_(text.number(divided_up(packed.inputs, packed.group))),
        group_(text.number(packed.group)) {
    if (packed.minima) minima_ = text.address(*packed.minima, storage_type(packed.scale_type));
    if (packed.values) values_ = text.address(*packed.values, "float");
  }

  // Defines "coded", the word that holds w[n, k] to w[n, k + 3] of a k that 4 divides, "shift" for them, "factor" and
  // perhaps "least".
  void read(const std::string& n, const std::string& k) const {
    const bool small = packed_.bits == 4;
    text_.line("const idx block = {0} / 16, in_block = {0} % 16, sub = {1} % 32 / 4;", n, k);
    text_.line("const u32 coded = {}[((block * {} + {} / 32) * {} + {}) * 16 + in_block];", codes_, depth_blocks_, k,
               small ? 4 : 8, small ? "sub % 4" : "sub");
    text_.line("const int shift = {};", small ? "sub >= 4 ? 4 : 0" : "0");
    text_.line("const idx of_group = (block * {} + {} / {}) * 16 + in_block;", groups_, k, group_);
    text_.line("const float factor = {};", load(text_, packed_.scale_type, scales_, "of_group"));
    if (packed_.minima) text_.line("const float least = {};", load(text_, packed_.scale_type, minima_, "of_group"));
  }
  // The number of the i-th of the four.
  std::string value(const std::string& i) const {
    const std::string code = fmt::format("(coded >> (8 * ({}) + shift) & {})", i, packed_.bits == 4 ? 15 : 255);
    if (packed_.values) return fmt::format("{}[{}] * factor", values_, code);
    if (packed_.minima) return fmt::format("(float){} * factor + least", code);
    return fmt::format("((float){} - {}.0f) * factor", code, packed_.bits == 4 ? 8 : 128);
  }

 private:
  KernelText& text_;
  const PackedCodes& packed_;
  std::string codes_, scales_, depth_blocks_, groups_, group_, minima_, values_;
};

// Numbers of a type of 16 bits are two: the nearest one, and the nearest of what is left, so that nothing of f32 is
// lost that shows beside the rounding of x.
void fetch_codes(KernelText& text, const Tile& tile, const FragmentKind& kind, transom_dtype from,
                 const PackedCodes& packed, const CodeText& codes, const std::string& lines, const std::string& depth) {
  const bool half = kind.per_word == 2;
  const auto to = [&](const std::string& x) {
    return fmt::format("{}({})", text.use(from == TRANSOM_FLOAT16 ? "to_f16" : "to_bf16"), x);
  };
  const auto back = [&](const std::string& x) {
    return fmt::format("{}({})", text.use(from == TRANSOM_FLOAT16 ? "from_f16" : "from_bf16"), x);
  };
  const auto add = [&](const std::string& word, const std::string& part, const std::string& value) {
    text.line("const float number = {};", value);
    if (!half) return text.line("{} = as_uint(number);", fmt::format("of_y[{}]", word));
    text.line("const u16 most = {};\nof_y[{}] |= (u32)most << (16 * ({}));", to("number"), word, part);
    text.line("of_rest[{}] |= (u32){} << (16 * ({}));", word, to("number - " + back("most")), part);
  };
  fetch_tile(text, tile, kind, false, "k0", [&] {
    text.line("const idx r = column0 + line;");
    text.line("UNROLL for (int j = 0; j < 4; ++j) of_y[at + j] = 0;");
    if (half) text.line("UNROLL for (int j = 0; j < 4; ++j) of_rest[at + j] = 0;");
    if (!packed.turned) {  // four neighbours in the depth are one word of codes
      text.line("UNROLL for (int four = 0; four < {}; ++four) {{\nconst idx n = k + four * 4;", kind.per_word);
      text.line("if (r < {} && n < {}) {{", lines, depth);
      codes.read("r", "n");
      text.line("UNROLL for (int i = 0; i < 4; ++i) if (n + i < {}) {{", depth);
      add(fmt::format("at + (four * 4 + i) / {}", kind.per_word), fmt::format("i % {}", kind.per_word),
          codes.value("i"));
      text.line("}}\n}}\n}}");
      return;
    }
    text.line("UNROLL for (int i = 0; i < {}; ++i) if (r < {} && k + i < {}) {{", 4 * kind.per_word, lines, depth);
    text.line("const idx n = k + i;");
    codes.read("n", "r");
    add(fmt::format("at + i / {}", kind.per_word), fmt::format("i % {}", kind.per_word), codes.value("(int)(r % 4)"));
    text.line("}}");
  });
}

}  // namespace

void launch_fragment_product(Emitter& emitter, const FragmentProduct& product) {
  const Product& p = product.shape;
  const FragmentKind kind = fragment_kind(p.from);
  const TileShape shape = tile_shape(p, emitter.facts().compute_units);
  const Tile left{"left", shape.rows, shape.words}, right{"right", shape.columns, shape.words},
      rest{"rest", shape.columns, shape.words};
  const bool integers = kind.per_word == 4, split = product.packed && kind.per_word == 2;
  // Of x - zero point, where x is less 128 already if it is u8.
  const int64_t shift = (p.from == TRANSOM_UINT8 ? 128 : 0) - product.zero_point;
  const Results sums{kind, "sums", shape.rows, shape.columns}, whole{kind, "whole", 32, shape.columns};

  KernelText text(product.wide);
  text.use("fragments");
  const std::string a = text.address(product.x, storage_type(p.from));
  const std::string b = product.packed ? "" : text.address(product.y, integers ? "i8" : storage_type(p.from));
  ResultText results(text, product);
  const std::string rows = text.number(p.rows), columns = text.number(p.columns), depth = text.number(p.depth);
  const std::string row_tiles = text.number(divided_up(p.rows, shape.rows));
  const std::string column_tiles = text.number(divided_up(p.columns, shape.columns));
  const auto source = [&](transom_dtype dtype, const std::string& base, int64_t batch, int64_t line, int64_t along,
                          const std::string& lines, const char* fast) {
    const std::string of_batch = text.number(batch), of_line = text.number(line), of_depth = text.number(along);
    TileSource from{dtype, base, {}, lines, depth, along == 1, fast};
    from.place = [=](const std::string& r, const std::string& k) {
      return along == 1 ? fmt::format("batch * {} + {} * {} + {}", of_batch, r, of_line, k)
                        : fmt::format("batch * {} + {} * {} + {} * {}", of_batch, r, of_line, k, of_depth);
    };
    if (from.deep) text.line("const int {} = {};", fast, fast_condition(dtype, base, {of_batch, of_line, depth}));
    return from;
  };
  const TileSource of_x = source(p.from, a, p.x_batch, p.x_row, p.x_depth, rows, "fast_x");
  TileSource of_y;
  std::unique_ptr<CodeText> codes;
  if (product.packed) codes = std::make_unique<CodeText>(text, *product.packed);
  else of_y = source(integers ? TRANSOM_INT8 : p.from, b, p.y_batch, p.y_column, p.y_depth, columns, "fast_y");
  const bool y_deep = !product.packed && of_y.deep;

  declare_tile(text, left), declare_tile(text, right);
  if (split) declare_tile(text, rest);
  text.line("for (idx tile = GROUP; tile < {} * {} * {}; tile += GROUPS) {{", text.number(p.batch), row_tiles,
            column_tiles);
  // Neighbouring groups share lines of both operands: bands of eight rows of tiles, column by column.
  text.line("const idx batch = tile / ({0} * {1}), in_batch = tile % ({0} * {1}), band = in_batch / (8 * {1}) * 8;",
            row_tiles, column_tiles);
  text.line("const idx height = {0} - band < 8 ? {0} - band : 8, in_band = in_batch % (8 * {1});", row_tiles,
            column_tiles);
  text.line("const idx row0 = (band + in_band % height) * {}, column0 = in_band / height * {};", shape.rows,
            shape.columns);
  declare_waves(text, kind);
  declare_results(text, sums), clear_results(text, sums);
  if (integers && shift != 0) declare_results(text, whole), clear_results(text, whole);
  declare_registers(text, left, "of_x"), declare_registers(text, right, "of_y");
  if (split) declare_registers(text, rest, "of_rest");
  const auto fetch = [&] {
    fetch_tile(text, left, of_x, "row0", "k0", "of_x");
    if (product.packed) fetch_codes(text, right, kind, p.from, *product.packed, *codes, columns, depth);
    else fetch_tile(text, right, of_y, "column0", "k0", "of_y");
  };
  // One loop, whose first pass only fetches, so that the text of a fetch stands there once.
  text.line("for (idx k0 = 0; k0 < {0} + {1}; k0 += {1}) {{", depth, shape.words * kind.per_word);
  text.line("if (k0 > 0) {{");
  put_tile(text, left, of_x.deep, "of_x"), put_tile(text, right, y_deep, "of_y");
  if (split) put_tile(text, rest, false, "of_rest");
  text.line("BARRIER;\n}}");
  text.line("if (k0 < {}) {{", depth);
  fetch();
  text.line("}}\nif (k0 > 0) {{");
  multiply_tiles(text, sums, left, right, shape.words, "0", split ? &rest : nullptr);
  if (integers && shift != 0) add_columns(text, whole, right, shape.words);
  text.line("BARRIER;\n}}\n}}");
  for_results(text, sums, [&](const std::string& sum) {
    text.line("if (row0 + row < {} && column0 + column < {}) {{", rows, columns);
    if (!integers) text.line("float value = {};", sum);
    else if (shift == 0) text.line("float value = (float){};", sum);
    else text.line("float value = (float)({} + (i32){} * whole[f % {}][e]);", sum, text.bits(shift), sums.across());
    if (product.bias)
      text.line("value += {};", load(text, product.bias_type,
                                     text.address(*product.bias, storage_type(product.bias_type)), "column0 + column"));
    text.line("const idx at = (batch * {0} + row0 + row) * {1} + column0 + column;", rows, columns);
    results.write();
    text.line("}}");
  });
  text.line("}}");
  const int64_t tiles = p.batch * divided_up(p.rows, shape.rows) * divided_up(p.columns, shape.columns);
  emitter.launch(text, std::min<int64_t>(tiles, 1 << 16),
                 fmt::format("{} {}x{}{}", product.packed ? "packed product" : "matrix product", shape.rows,
                             shape.columns, results.label()));
}

PackedNode::PackedNode(const Work& work)
    : work(work),
      codes{work.node.integer("bits"),
            work.node.integer("rows"),
            work.node.integer("depth"),
            work.node.integer("group"),
            work.node.op() == "quantized_matmul_gradient",
            work.node.input(2).dtype,
            work.inputs.at(1),
            work.inputs.at(2)} {
  const Node& node = work.node;
  size_t next = 3;
  if (node.integer("minima")) codes.minima = &work.inputs.at(next++);
  if (node.integer("values")) codes.values = &work.inputs.at(next++);
  if (!codes.turned && node.integer("bias") != 0) bias = next;
}

FragmentProduct PackedNode::product() const {
  const Type &x = work.node.input(0), &out = work.node.output();
  const int64_t contracted = codes.turned ? codes.outputs : codes.inputs,
                made = codes.turned ? codes.inputs : codes.outputs;
  FragmentProduct product{{1, x.count() / std::max<int64_t>(contracted, 1), made, contracted, 0, contracted, 1, 0, 0, 0,
                           x.dtype, out.dtype},
                          work.inputs[0],
                          {},
                          work.outputs[0]};
  if (bias) product.bias = &work.inputs.at(bias), product.bias_type = work.node.input(bias).dtype;
  product.wide = is_wide(x) || is_wide(out) || codes.outputs * codes.inputs >= (int64_t{1} << 30);
  product.packed = &codes;
  product.following = work.following;
  return product;
}

namespace {

void lower_packed_product(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  if (node.output().count() == 0) return;
  const PackedNode packed(work);
  if (node.has("activations") && node.op() == "quantized_matmul" && node.attributes().text("activations") != "float32")
    return launch_rounded_product(emitter, work, packed);
  FragmentProduct product = packed.product();
  launch_fragment_product(emitter, product);
}

void lower_integer_product(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const Type &x = node.input(0), &w = node.input(1), &out = node.output();
  if (out.count() == 0) return;
  const int64_t depth = w.shape.at(1), rows = x.count() / std::max<int64_t>(depth, 1);
  FragmentProduct product{{1, rows, w.shape.at(0), depth, 0, depth, 1, 0, depth, 1, x.dtype, out.dtype},
                          work.inputs[0],
                          work.inputs.at(1),
                          work.outputs[0]};
  product.wide = is_wide(x) || is_wide(w) || is_wide(out);
  product.zero_point = node.integer("zero_point");
  product.following = work.following;
  launch_fragment_product(emitter, product);
}

bool claims_codes(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes) {
  if (attributes.has("activations") && attributes.text("activations") == "float8" &&
      !multiplies_float8(facts.architecture))
    return false;
  return claims_floats(facts, inputs, attributes) && inputs.size() >= 3 && inputs[0].dtype != TRANSOM_FLOAT64 &&
         inputs[2].dtype != TRANSOM_FLOAT64;
}

bool claims_integer_linear(const Facts&, std::span<const transom_value> inputs, const plugin::Attributes&) {
  return inputs.size() == 2 && inputs[1].rank == 2;
}

}  // namespace

void add_fragment_lowerings(LoweringTable& table) {
  table["quantized_matmul"] = {lower_packed_product, claims_codes};
  table["quantized_matmul_gradient"] = {lower_packed_product, claims_codes};
  table["integer_linear"] = {lower_integer_product, claims_integer_linear};
}

}  // namespace transom::gpu
