// SPDX-License-Identifier: Apache-2.0
// Sums, maxima and minima along axes. How a result is computed depends on how many elements it has, never on how many
// results there are, so that a row has the bits that it has alone.
#include <algorithm>

#include "gpu/lowering/row_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kShortRow = 64;      // up to here one thread adds a row
constexpr int64_t kColumnPiece = 256;  // elements of a column that one thread adds

struct Axes {
  Shape extents, strides;
  int64_t count() const { return backend::product(extents); }
  void add(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (!extents.empty() && strides.back() == extent * stride) extents.back() *= extent, strides.back() = stride;
    else extents.push_back(extent), strides.push_back(stride);
  }
};

// The place in memory of element `index` of the axes, as an expression; statements that it needs are written.
std::string place_of(KernelText& text, const Axes& axes, std::string index) {
  std::string sum;
  for (size_t axis = axes.extents.size(); axis-- > 0;) {
    std::string along = index;
    if (axis > 0) {
      const std::string extent = text.number(axes.extents[axis]), rest = text.fresh("r");
      along = fmt::format("({} % {})", index, extent);
      text.line("const idx {} = {} / {};", rest, index, extent);
      index = rest;
    }
    if (axes.strides[axis] != 1) along += " * " + text.number(axes.strides[axis]);
    sum += (sum.empty() ? "" : " + ") + along;
  }
  return sum.empty() ? "0" : sum;
}

std::string joined(std::string_view kind, transom_dtype dtype, const std::string& x, const std::string& y) {
  const bool floating = backend::is_floating(dtype);
  if (kind == "sum")
    return floating ? fmt::format("{} + {}", x, y) : fmt::format("({})((u64){} + (u64){})", storage_type(dtype), x, y);
  const char* symbol = kind == "max" ? "<" : ">";
  if (!floating) return fmt::format("({0} {2} {1} ? {1} : {0})", x, y, symbol);
  return fmt::format("({0} != {0} ? {0} : {1} != {1} ? {1} : {0} {2} {1} ? {1} : {0})", x, y, symbol);
}

struct Reduction {
  std::string kind;
  Axes kept, reduced;
  transom_dtype from, to;  // of what is read and written
  bool wide;               // places of the whole tensor need 64 bits, also where few of its elements are read
};

void one_thread_each(Emitter& emitter, const Reduction& r, const Operand& from, const Operand& to) {
  KernelText text(r.wide);
  const std::string x = text.address(from, storage_type(r.from)), y = text.address(to, storage_type(r.to));
  text.line("{} {{", loop_over("o", text.number(r.kept.count())));
  text.line("const idx base = {};", place_of(text, r.kept, "o"));
  text.line("{} sum = {};", compute_type(r.from), neutral(text, r.from, r.kind));
  text.line("for (idx i = 0; i < {}; ++i) {{", text.number(r.reduced.count()));
  const std::string place = place_of(text, r.reduced, "i");
  text.line("const {} v = {};", compute_type(r.from), load(text, r.from, x, fmt::format("base + {}", place)));
  text.line("sum = {};\n}}", joined(r.kind, r.from, "sum", "v"));
  text.line("{}\n}}", store(text, r.to, y, "o", "sum"));
  emitter.launch(text, groups_for(r.kept.count(), 1), "reduce_" + r.kind + " by threads");
}

void one_group_each(Emitter& emitter, const Reduction& r, const Operand& from, const Operand& to) {
  KernelText text(r.wide);
  const std::string x = text.address(from, storage_type(r.from)), y = text.address(to, storage_type(r.to));
  const char* type = compute_type(r.from);
  text.local(type, "sums", kGroup);
  text.line("for (idx o = GROUP; o < {}; o += GROUPS) {{", text.number(r.kept.count()));
  text.line("const idx base = {};", place_of(text, r.kept, "o"));
  text.line("{} sum = {};", type, neutral(text, r.from, r.kind));
  const std::string n = text.number(r.reduced.count());
  const size_t begin = text.size();
  const std::string place = place_of(text, r.reduced, "i");
  text.line("const {} v = {};", type, load(text, r.from, x, fmt::format("base + {}", place)));
  text.line("sum = {};", joined(r.kind, r.from, "sum", "v"));
  write_row_loop(text, text.cut(begin), n, row_lanes(r.from));
  text.line("sums[THREAD] = sum;\nBARRIER;");
  text.line("for (int span = {}; span > 0; span >>= 1) {{", kGroup / 2);
  text.line("if (THREAD < span) sums[THREAD] = {};", joined(r.kind, r.from, "sums[THREAD]", "sums[THREAD + span]"));
  text.line("BARRIER;\n}}");
  text.line("if (THREAD == 0) {}", store(text, r.to, y, "o", "sums[0]"));
  text.line("BARRIER;\n}}");
  emitter.launch(text, std::min<int64_t>(r.kept.count(), 1 << 14), "reduce_" + r.kind + " by groups");
}

void lower(Emitter& emitter, const Reduction& r, const Operand& from, const Operand& to) {
  const int64_t count = r.reduced.count(), results = r.kept.count();
  if (results == 0) return;
  const bool rows = !r.reduced.strides.empty() && r.reduced.strides.back() == 1;
  if (rows && count > kShortRow) return one_group_each(emitter, r, from, to);
  if (rows || r.reduced.extents.size() != 1 || count < 2 * kColumnPiece) return one_thread_each(emitter, r, from, to);
  // Columns in pieces, whose results are joined in their order: [pieces, results].
  const int64_t pieces = count / kColumnPiece, rest = count % kColumnPiece, all = pieces + (rest > 0);
  const transom_dtype wide = backend::is_half(r.from) ? TRANSOM_FLOAT32 : r.from;
  const auto bytes = static_cast<int64_t>(backend::element_size(wide));
  const Operand partial = emitter.scratch(all * results * bytes);
  Reduction part = r;
  part.to = wide;
  part.reduced = {{kColumnPiece}, r.reduced.strides};
  part.kept = {};
  part.kept.add(pieces, kColumnPiece * r.reduced.strides[0]);
  for (size_t i = 0; i < r.kept.extents.size(); ++i) part.kept.add(r.kept.extents[i], r.kept.strides[i]);
  one_thread_each(emitter, part, from, partial);
  if (rest > 0) {
    part.reduced.extents = {rest};
    part.kept = r.kept;
    Operand begin = from, end = partial;
    begin.offset += static_cast<size_t>(pieces * kColumnPiece * r.reduced.strides[0]) * backend::element_size(r.from);
    end.offset += static_cast<size_t>(pieces * results * bytes);
    one_thread_each(emitter, part, begin, end);
  }
  one_thread_each(emitter, {r.kind, {{results}, {1}}, {{all}, {results}}, wide, r.to, r.wide}, partial, to);
}

void lower_reduction(Emitter& emitter, const Work& work) {
  const Type &x = work.node.input(0), &y = work.node.output();
  if (work.node.op() == "reduce_sum" && x.dtype == TRANSOM_FLOAT32 && y.count() == 1 && x.count() > 1)
    return lower_alone(emitter, work);
  Reduction r{work.node.op().substr(std::string("reduce_").size()), {}, {}, x.dtype, y.dtype, is_wide(x)};
  const Shape& axes = work.node.integers("axes");
  const Shape strides = strides_of(x.shape);
  for (size_t i = 0; i < x.rank(); ++i)
    (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end() ? r.reduced : r.kept)
        .add(x.shape[i], strides[i]);
  lower(emitter, r, work.inputs[0], work.outputs[0]);
}

// One group a line; of equal values the first place, NaN before all.
void lower_arg(Emitter& emitter, const Work& work) {
  const Type& x = work.node.input(0);
  const auto axis = static_cast<size_t>(work.node.integer("axis"));
  if (axis >= x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: no axis {}", work.node.place(), axis);
  const int64_t inner = backend::product(x.shape, axis + 1, x.rank()), length = x.shape[axis];
  const int64_t lines = work.node.output().count();
  if (lines == 0) return;
  const bool largest = work.node.op() == "arg_max";
  const char* type = compute_type(x.dtype);
  KernelText text(is_wide(x));
  const std::string from = text.address(work.inputs[0], storage_type(x.dtype)),
                    to = text.address(work.outputs[0], "i64");
  text.local(type, "values", kGroup);
  text.local("i64", "places", kGroup);
  const std::string in = text.number(inner), n = text.number(length);
  const std::string better = backend::is_floating(x.dtype)
                                 ? fmt::format("(v != v ? best == best : v {} best)", largest ? ">" : "<")
                                 : fmt::format("(v {} best)", largest ? ">" : "<");
  const std::string equal = backend::is_floating(x.dtype) ? "(v == best || (v != v && best != best))" : "(v == best)";
  text.line("for (idx o = GROUP; o < {}; o += GROUPS) {{", text.number(lines));
  text.line("const idx base = (o / {0}) * {1} * {0} + o % {0};", in, n);
  text.line("{} best = 0;\ni64 place = -1;", type);
  text.line("for (idx i = THREAD; i < {}; i += {}) {{", n, kGroup);
  text.line("const {} v = {};", type, load(text, x.dtype, from, fmt::format("base + i * {}", in)));
  text.line("if (place < 0 || {}) {{ best = v; place = i; }}\n}}", better);
  text.line("values[THREAD] = best;\nplaces[THREAD] = place;\nBARRIER;");
  text.line("for (int span = {}; span > 0; span >>= 1) {{\nif (THREAD < span) {{", kGroup / 2);
  text.line("best = values[THREAD]; place = places[THREAD];");
  text.line("const {} v = values[THREAD + span]; const i64 at = places[THREAD + span];", type);
  text.line("if (at >= 0 && (place < 0 || {} || ({} && at < place))) {{", better, equal);
  text.line("values[THREAD] = v; places[THREAD] = at;\n}}\n}}\nBARRIER;\n}}");
  text.line("if (THREAD == 0) {}[o] = places[0];\nBARRIER;\n}}", to);
  emitter.launch(text, std::min<int64_t>(lines, 1 << 14), work.node.op());
}

void lower_cumulative_sum(Emitter& emitter, const Work& work) {
  const Type& x = work.node.input(0);
  const auto axis = static_cast<size_t>(work.node.integer("axis"));
  if (axis >= x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: no axis {}", work.node.place(), axis);
  if (x.count() == 0) return;
  const int64_t inner = backend::product(x.shape, axis + 1, x.rank()), length = x.shape[axis];
  const int64_t lines = x.count() / length;
  KernelText text(is_wide(x));
  const std::string from = text.address(work.inputs[0], storage_type(x.dtype));
  const std::string to = text.address(work.outputs[0], storage_type(x.dtype));
  const std::string in = text.number(inner), n = text.number(length);
  text.line("{} {{", loop_over("o", text.number(lines)));
  text.line("const idx base = (o / {0}) * {1} * {0} + o % {0};", in, n);
  text.line("{} sum = 0;", compute_type(x.dtype));
  text.line("for (idx i = 0; i < {}; ++i) {{", n);
  const std::string place = fmt::format("base + i * {}", in);
  text.line("const {} v = {};", compute_type(x.dtype), load(text, x.dtype, from, place));
  text.line("sum = {};", joined("sum", x.dtype, "sum", "v"));
  text.line("{}\n}}\n}}", store(text, x.dtype, to, place, "sum"));
  emitter.launch(text, groups_for(lines, 1), "cumulative_sum");
}

}  // namespace

void lower_column_sums(Emitter& emitter, const Type& x, const Operand& from, const Operand& to) {
  lower(emitter, {"sum", {{x.shape[1]}, {1}}, {{x.shape[0]}, {x.shape[1]}}, x.dtype, x.dtype, is_wide(x)}, from, to);
}

void add_reduction_lowerings(LoweringTable& table) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) table[op] = lower_reduction;
  table["arg_max"] = lower_arg;
  table["arg_min"] = lower_arg;
  table["cumulative_sum"] = lower_cumulative_sum;
}

}  // namespace transom::gpu
