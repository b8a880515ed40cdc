// SPDX-License-Identifier: Apache-2.0
// layer_norm and rms_norm, and their gradients: the rows, then the sums over all rows.
#include "gpu/lowering/row_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kRowsOfPiece = 64;  // rows whose share of a sum over all rows one thread adds

// Declares `mean` (of a layer norm) and `inverse`, one over the deviation.
void write_statistics(RowText& row, const Work& work, bool centred) {
  const std::string x = row.input(0), count = fmt::format("({}){}", row.type(), row.n);
  if (centred) {
    row.sum("mean", [&] { return x; });
    row.text.line("mean /= {};", count);
  } else {
    row.text.line("const {} mean = 0;", row.type());
  }
  row.sum("inverse", [&] { return fmt::format("({0} - mean) * ({0} - mean)", x); });
  row.text.line("inverse = 1 / sqrt(inverse / {} + {});", count,
                argument(row.text, row.wide() ? TRANSOM_FLOAT64 : TRANSOM_FLOAT32, work.node.number("epsilon")));
}

template <bool centred>
void norm(Emitter& emitter, const Work& work) {
  RowText row(work, work.node.input(0), {0});
  write_statistics(row, work, centred);
  row.begin_elements();
  const std::string normal = fmt::format("({} - mean) * inverse * {}", row.input(0), row.input(1, true));
  row.output(0, centred ? fmt::format("{} + {}", normal, row.input(2, true)) : normal);
  row.end_elements();
  row.finish(emitter);
}

// Sums over all rows, in one launch: a group takes some columns, its threads the pieces of theirs, which then are added
// in order. Pieces depend on the number of rows alone.
void sums_over_rows(Emitter& emitter, const Work& work, const Operand& statistics, int64_t rows, int64_t length,
                    bool centred) {
  const Type &x = work.node.input(0), &dy = work.node.input(2);
  const char* type = compute_type(x.dtype);
  const int64_t pieces = std::max<int64_t>(divided_up(rows, kRowsOfPiece), 1);
  const int64_t at_once = pieces > 4 ? 32 : 4, columns = kGroup / at_once;
  KernelText text(is_wide(x));
  const std::string a = text.address(work.inputs[0], storage_type(x.dtype));
  const std::string g = text.address(work.inputs[2], storage_type(dy.dtype)), s = text.address(statistics, type);
  const std::string n = text.number(length), all = text.number(rows), count = text.number(pieces);
  text.local(type, "scales", kGroup);
  if (centred) text.local(type, "biases", kGroup);
  text.line("for (idx block = GROUP; block < {}; block += GROUPS) {{", text.number(divided_up(length, columns)));
  text.line("const idx column = block * {0} + THREAD % {0}, place = THREAD / {0};", columns);
  text.line("{0} total_scale = 0, total_bias = 0;", type);
  text.line("for (idx first = 0; first < {}; first += {}) {{", count, at_once);
  text.line("const idx begin = (first + place) * {0}, end = begin + {0} < {1} ? begin + {0} : {1};", kRowsOfPiece, all);
  text.line("{} scale = 0, bias = 0;", type);
  text.line("for (idx row = begin; row < end && column < {}; ++row) {{", n);
  text.line("const idx at = row * {} + column;\nconst {} dy = {};", n, type, load(text, dy.dtype, g, "at"));
  text.line("scale += dy * (({} - {}[row * 2]) * {}[row * 2 + 1]);\nbias += dy;\n}}", load(text, x.dtype, a, "at"), s,
            s);
  text.line("scales[THREAD] = scale;");
  if (centred) text.line("biases[THREAD] = bias;");
  text.line("BARRIER;\nif (place == 0) {{\nfor (int p = 0; p < {} && first + p < {}; ++p) {{", at_once, count);
  text.line("total_scale += scales[p * {} + THREAD];", columns);
  if (centred) text.line("total_bias += biases[p * {} + THREAD];", columns);
  text.line("}}\n}}\nBARRIER;\n}}\nif (place == 0 && column < {}) {{", n);
  const auto write = [&](size_t output, const char* total) {
    const transom_dtype dtype = work.node.output(output).dtype;
    text.line("{}", store(text, dtype, text.address(work.outputs[output], storage_type(dtype)), "column", total));
  };
  write(1, "total_scale");
  if (centred) write(2, "total_bias");
  text.line("}}\n}}");
  emitter.launch(text, std::min<int64_t>(divided_up(length, columns), 1 << 14), work.node.op() + " sums");
}

template <bool centred>
void norm_gradient(Emitter& emitter, const Work& work) {
  const Type& x = work.node.input(0);
  RowText row(work, x, {0, 2});
  const char* type = compute_type(x.dtype);
  const Operand statistics = emitter.scratch(std::max<int64_t>(row.rows(), 1) * 16);
  write_statistics(row, work, centred);
  const std::string normal = fmt::format("(({} - mean) * inverse)", row.input(0));
  const std::string g = fmt::format("({} * {})", row.input(2), row.input(1, true));
  const std::string count = fmt::format("({}){}", type, row.n), product = fmt::format("{} * {}", g, normal);
  if (centred) {
    row.sums("means", g, "products", product);
    row.text.line("means /= {};", count);
  } else {
    row.sum("products", [&] { return product; });
  }
  row.text.line("products /= {};", count);
  row.begin_elements();
  row.output(0, fmt::format("inverse * ({}{} - {} * products)", g, centred ? " - means" : "", normal));
  row.end_elements();
  const std::string kept = row.text.address(statistics, type);
  row.text.line("if (THREAD == 0) {{ {0}[row * 2] = mean; {0}[row * 2 + 1] = inverse; }}", kept);
  row.finish(emitter);
  sums_over_rows(emitter, work, statistics, row.rows(), row.length(), centred);
}

}  // namespace

void add_norm_lowerings(LoweringTable& table) {
  table["layer_norm"] = {norm<true>, claims_floats};
  table["layer_norm_gradient"] = {norm_gradient<true>, claims_floats};
  table["rms_norm"] = {norm<false>, claims_floats};
  table["rms_norm_gradient"] = {norm_gradient<false>, claims_floats};
}

}  // namespace transom::gpu
