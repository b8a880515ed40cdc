// SPDX-License-Identifier: Apache-2.0
// Composites that walk rows: softmax, norms, cross entropy, their gradients. A group computes a row; what it needs of
// the whole row it sums first. Values are computed in f32 (f64 of f64), and rounded once.
#include <algorithm>
#include <limits>

#include "gpu/lowering/lowering.h"

namespace transom::gpu {
namespace {

constexpr int64_t kRowsOfPiece = 64;  // rows whose share of a sum over all rows one thread adds

// A kernel that walks rows of `length` elements: names of its parts for the text.
class RowText {
 public:
  RowText(const Work& work, const Type& x)
      : text(is_wide(x)), work_(work), type_(compute_type(x.dtype)), length_(x.rank() ? x.shape.back() : 1) {
    rows_ = length_ ? x.count() / length_ : 0;
    n = text.number(length_);
    text.local(type_, "memory", kGroup);
    text.line("for (idx row = GROUP; row < {}; row += GROUPS) {{", text.number(rows_));
    text.line("const idx base = row * {};", n);
  }

  // The element i of a row of input k, or of a vector that all rows share.
  std::string input(size_t k, bool shared = false) {
    const transom_dtype dtype = work_.node.input(k).dtype;
    return fmt::format(
        "(({}){})", type_,
        load(text, dtype, text.address(work_.inputs[k], storage_type(dtype)), shared ? "i" : "base + i"));
  }
  void output(size_t k, const std::string& value) {
    const transom_dtype dtype = work_.node.output(k).dtype;
    text.line("{}", store(text, dtype, text.address(work_.outputs[k], storage_type(dtype)), "base + i", value));
  }
  void begin_elements() { text.line("for (idx i = THREAD; i < {}; i += {}) {{", n, kGroup); }
  void end_elements() { text.line("}}"); }

  // Declares `name`, the sum of an expression over the row.
  void sum(const std::string& name, const std::function<std::string()>& expression) {
    text.line("{} {} = 0;", type_, name);
    begin_elements();
    const std::string value = expression();
    text.line("{} += {};", name, value);
    end_elements();
    write_group_sum(text, name, "memory");
  }
  void largest(const std::string& name, const std::string& expression) {
    text.line("{} {} = {};", type_, name, wide() ? "as_double((u64)0xFFF0000000000000UL)" : "as_float(0xFF800000u)");
    begin_elements();
    text.line("const {0} v = {2};\n{1} = {1} != {1} || v < {1} ? {1} : v;", type_, name, expression);
    end_elements();
    text.line("memory[THREAD] = {};\nBARRIER;", name);
    text.line("for (int span = {}; span > 0; span >>= 1) {{\nif (THREAD < span) {{", kGroup / 2);
    text.line("const {} a = memory[THREAD], b = memory[THREAD + span];", type_);
    text.line("memory[THREAD] = a != a || b < a ? a : b;\n}}\nBARRIER;\n}}\n{} = memory[0];\nBARRIER;", name);
  }
  std::string exp(const std::string& x) {
    return wide() ? fmt::format("exp({})", x) : fmt::format("{}({})", text.use("f_exp"), x);
  }
  std::string log(const std::string& x) {
    return wide() ? fmt::format("log({})", x) : fmt::format("{}({})", text.use("f_log"), x);
  }
  std::string constant(double value) { return literal(text, wide() ? TRANSOM_FLOAT64 : TRANSOM_FLOAT32, value); }
  void finish(Emitter& emitter) {
    text.line("}}");
    emitter.launch(text, std::min<int64_t>(rows_, 1 << 14), work_.node.op());
  }
  bool wide() const { return std::string_view(type_) == "double"; }
  const char* type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t length() const { return length_; }

  KernelText text;
  std::string n;

 private:
  const Work& work_;
  const char* type_;
  int64_t length_, rows_;
};

void softmax(Emitter& emitter, const Work& work, bool logarithm) {
  RowText row(work, work.node.input(0));
  const std::string x = row.input(0);
  row.largest("most", x);
  row.sum("total", [&] { return row.exp(fmt::format("{} - most", x)); });
  if (logarithm) row.text.line("total = {};", row.log("total"));
  row.begin_elements();
  if (logarithm) row.output(0, fmt::format("({} - most) - total", x));
  else row.output(0, fmt::format("{} / total", row.exp(fmt::format("{} - most", x))));
  row.end_elements();
  row.finish(emitter);
}

void softmax_gradient(Emitter& emitter, const Work& work, bool logarithm) {
  RowText row(work, work.node.input(0));
  const std::string y = row.input(0), dy = row.input(1);
  row.sum("total", [&] { return logarithm ? dy : fmt::format("{} * {}", y, dy); });
  row.begin_elements();
  if (logarithm) row.output(0, fmt::format("{} - {} * total", dy, row.exp(y)));
  else row.output(0, fmt::format("{} * ({} - total)", y, dy));
  row.end_elements();
  row.finish(emitter);
}

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

void norm(Emitter& emitter, const Work& work, bool centred) {
  RowText row(work, work.node.input(0));
  write_statistics(row, work, centred);
  row.begin_elements();
  const std::string normal = fmt::format("({} - mean) * inverse * {}", row.input(0), row.input(1, true));
  row.output(0, centred ? fmt::format("{} + {}", normal, row.input(2, true)) : normal);
  row.end_elements();
  row.finish(emitter);
}

// Sums over all rows, in pieces that depend on the number of rows alone.
void sums_over_rows(Emitter& emitter, const Work& work, const Operand& statistics, int64_t rows, int64_t length,
                    bool centred) {
  const Type &x = work.node.input(0), &dy = work.node.input(2);
  const bool wide = x.dtype == TRANSOM_FLOAT64;
  const char* type = compute_type(x.dtype);
  const int64_t outputs = centred ? 2 : 1;
  const int64_t pieces = std::max<int64_t>(divided_up(rows, kRowsOfPiece), 1);
  const Operand partial = emitter.scratch(pieces * length * outputs * (wide ? 8 : 4));
  {
    KernelText text(is_wide(x));
    const std::string a = text.address(work.inputs[0], storage_type(x.dtype));
    const std::string g = text.address(work.inputs[2], storage_type(dy.dtype));
    const std::string s = text.address(statistics, type), out = text.address(partial, type);
    const std::string n = text.number(length), all = text.number(rows), count = text.number(pieces * length);
    text.line("{} {{\nconst idx column = i % {}, piece = i / {};", loop_over("i", count), n, n);
    text.line("{} scale = 0, bias = 0;", type);
    text.line("for (idx row = piece * {0}; row < (piece + 1) * {0} && row < {1}; ++row) {{", kRowsOfPiece, all);
    text.line("const idx at = row * {} + column;\nconst {} dy = {};", n, type, load(text, dy.dtype, g, "at"));
    text.line("scale += dy * (({} - {}[row * 2]) * {}[row * 2 + 1]);\nbias += dy;\n}}", load(text, x.dtype, a, "at"), s,
              s);
    text.line("{}[i] = scale;", out);
    if (centred) text.line("{}[{} + i] = bias;", out, count);
    text.line("}}");
    emitter.launch(text, groups_for(pieces * length, 1), work.node.op() + " sums of pieces");
  }
  KernelText text(is_wide(x));
  const std::string in = text.address(partial, type), n = text.number(length), count = text.number(pieces);
  text.line("{} {{", loop_over("i", n));
  for (int64_t k = 0; k < outputs; ++k) {
    const auto output = static_cast<size_t>(k) + 1;
    const transom_dtype dtype = work.node.output(output).dtype;
    text.line("{{ {} sum = 0;\nfor (idx p = 0; p < {}; ++p) sum += {}[({} * {} + p) * {} + i];", type, count, in, k,
              count, n);
    text.line("{} }}", store(text, dtype, text.address(work.outputs[output], storage_type(dtype)), "i", "sum"));
  }
  text.line("}}");
  emitter.launch(text, groups_for(length, 1), work.node.op() + " sums");
}

void norm_gradient(Emitter& emitter, const Work& work, bool centred) {
  const Type& x = work.node.input(0);
  RowText row(work, x);
  const char* type = compute_type(x.dtype);
  const Operand statistics = emitter.scratch(std::max<int64_t>(row.rows(), 1) * 16);
  write_statistics(row, work, centred);
  const std::string normal = fmt::format("(({} - mean) * inverse)", row.input(0));
  const std::string g = fmt::format("({} * {})", row.input(2), row.input(1, true));
  const std::string count = fmt::format("({}){}", type, row.n);
  if (centred) row.sum("means", [&] { return g; });
  row.sum("products", [&] { return fmt::format("{} * {}", g, normal); });
  if (centred) row.text.line("means /= {};", count);
  row.text.line("products /= {};", count);
  row.begin_elements();
  row.output(0, fmt::format("inverse * ({}{} - {} * products)", g, centred ? " - means" : "", normal));
  row.end_elements();
  const std::string kept = row.text.address(statistics, type);
  row.text.line("if (THREAD == 0) {{ {0}[row * 2] = mean; {0}[row * 2 + 1] = inverse; }}", kept);
  row.finish(emitter);
  sums_over_rows(emitter, work, statistics, row.rows(), row.length(), centred);
}

// (logits, labels): rows whose label is ignore_index give 0, those whose label is no class NaN.
void cross_entropy(Emitter& emitter, const Work& work, bool gradient) {
  const Type& x = work.node.input(0);
  RowText row(work, x);
  const std::string labels = row.text.address(work.inputs[1], "i64"), logits = row.input(0);
  row.text.line("const i64 label = {}[row];", labels);
  const std::string ignored = row.text.bits(work.node.integer("ignore_index"));
  row.text.line("const int counts = label != {};", ignored);
  row.text.line("const int known = label >= 0 && label < {};", row.n);
  const std::string not_a_number = row.constant(std::numeric_limits<double>::quiet_NaN());
  row.largest("most", logits);
  row.sum("total", [&] { return row.exp(fmt::format("{} - most", logits)); });
  if (gradient) {
    const transom_dtype dtype = work.node.input(2).dtype;
    row.text.line("const {} dy = {};", row.type(),
                  load(row.text, dtype, row.text.address(work.inputs[2], storage_type(dtype)), "row"));
    row.begin_elements();
    row.output(0, fmt::format("!counts ? 0 : known ? ({} / total - (i == label ? 1 : 0)) * dy : {}",
                              row.exp(fmt::format("{} - most", logits)), not_a_number));
    row.end_elements();
  } else {
    const transom_dtype dtype = work.node.output().dtype;
    row.text.line("if (THREAD == 0) {{\nconst idx i = known ? (idx)label : 0;");
    row.text.line("{}\n}}", store(row.text, dtype, row.text.address(work.outputs[0], storage_type(dtype)), "row",
                                  fmt::format("!counts ? 0 : known ? {} - ({} - most) : {}", row.log("total"), logits,
                                              not_a_number)));
  }
  row.finish(emitter);
}

}  // namespace

void lower_rows(Emitter& emitter, const Work& work) {
  const std::string& op = work.node.op();
  if (op == "softmax" || op == "log_softmax") return softmax(emitter, work, op == "log_softmax");
  if (op == "softmax_gradient" || op == "log_softmax_gradient")
    return softmax_gradient(emitter, work, op == "log_softmax_gradient");
  if (op == "layer_norm" || op == "rms_norm") return norm(emitter, work, op == "layer_norm");
  if (op == "cross_entropy" || op == "cross_entropy_gradient")
    return cross_entropy(emitter, work, op == "cross_entropy_gradient");
  norm_gradient(emitter, work, op == "layer_norm_gradient");
}

}  // namespace transom::gpu
