// SPDX-License-Identifier: Apache-2.0
// Matrix products: by the vendor's library where it takes them; else those of f16 and bf16 over matrix units
// (lower_fragments), others in tiles of 64 x 64 results a group, 4 x 4 a thread, operands through group memory. The sum
// of a result runs over the depth in order, whatever the other results are.
#include <algorithm>

#include "gpu/lowering/products.h"

namespace transom::gpu {
namespace {

constexpr int64_t kTile = 64, kDepth = 16, kEach = 4;

void launch_product(Emitter& emitter, const Product& p, const Operand& x, const Operand& y, const Operand* bias,
                    transom_dtype bias_type, const Operand& out, bool wide) {
  KernelText text(wide);
  const char* type = compute_type(p.from);
  const std::string a = text.address(x, storage_type(p.from)), b = text.address(y, storage_type(p.from));
  const std::string c = text.address(out, storage_type(p.to));
  const std::string rows = text.number(p.rows), columns = text.number(p.columns), depth = text.number(p.depth);
  const std::string row_tiles = text.number(divided_up(p.rows, kTile));
  const std::string column_tiles = text.number(divided_up(p.columns, kTile));
  text.local(type, "left", kDepth * (kTile + 1));
  text.local(type, "right", kDepth * (kTile + 1));
  text.line("for (idx tile = GROUP; tile < {} * {} * {}; tile += GROUPS) {{", text.number(p.batch), row_tiles,
            column_tiles);
  text.line("const idx batch = tile / ({0} * {1}), row0 = tile / {1} % {0} * {2}, column0 = tile % {1} * {2};",
            row_tiles, column_tiles, kTile);
  text.line("const idx tx = THREAD % 16, ty = THREAD / 16;");
  text.line("{} sum[{}];\nfor (int i = 0; i < {}; ++i) sum[i] = 0;", type, kEach * kEach, kEach * kEach);
  text.line("for (idx k0 = 0; k0 < {}; k0 += {}) {{", depth, kDepth);
  text.line("for (int i = THREAD; i < {}; i += {}) {{", kTile * kDepth, kGroup);
  // Neighbouring threads read what lies side by side.
  const auto fetch = [&](const char* target, const std::string& from, int64_t batch, int64_t line, int64_t along,
                         const char* first, const std::string& most) {
    const bool deep = along == 1;
    text.line("{{ const idx k = {}, r = {};", deep ? fmt::format("i % {}", kDepth) : fmt::format("i / {}", kTile),
              deep ? fmt::format("i / {}", kDepth) : fmt::format("i % {}", kTile));
    const std::string place = fmt::format("batch * {} + ({} + r) * {} + (k0 + k) * {}", text.number(batch), first,
                                          text.number(line), text.number(along));
    text.line("{}[k * {} + r] = {} + r < {} && k0 + k < {} ? {} : 0; }}", target, kTile + 1, first, most, depth,
              load(text, p.from, from, place));
  };
  fetch("left", a, p.x_batch, p.x_row, p.x_depth, "row0", rows);
  fetch("right", b, p.y_batch, p.y_column, p.y_depth, "column0", columns);
  text.line("}}\nBARRIER;");
  text.line("for (int k = 0; k < {}; ++k) {{\n{} l[{}], r[{}];", kDepth, type, kEach, kEach);
  text.line(
      "for (int i = 0; i < {0}; ++i) {{ l[i] = left[k * {1} + ty + i * 16]; r[i] = right[k * {1} + tx + i * 16]; }}",
      kEach, kTile + 1);
  const bool floating = backend::is_floating(p.from);
  const std::string step = floating ? "fma(l[i], r[j], sum[i * 4 + j])"
                                    : fmt::format("({})((u64)sum[i * 4 + j] + (u64)l[i] * (u64)r[j])", type);
  text.line("for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) sum[i * 4 + j] = {};", step);
  text.line("}}\nBARRIER;\n}}");
  text.line("for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {{");
  text.line("const idx row = row0 + ty + i * 16, column = column0 + tx + j * 16;");
  text.line("if (row < {} && column < {}) {{", rows, columns);
  text.line("{} value = sum[i * 4 + j];", type);
  if (bias) text.line("value += {};", load(text, bias_type, text.address(*bias, storage_type(bias_type)), "column"));
  text.line("{}\n}}\n}}\n}}",
            store(text, p.to, c, fmt::format("(batch * {} + row) * {} + column", rows, columns), "value"));
  const int64_t tiles = p.batch * divided_up(p.rows, kTile) * divided_up(p.columns, kTile);
  emitter.launch(text, std::min<int64_t>(tiles, 1 << 16), "product 64x64");
}

// Axes of one side as one: their extent, and their stride if the elements of all combinations lie evenly.
struct Side {
  int64_t extent = 1, stride = 1;
  bool even = true;
};
Side joined(const Type& type, const Shape& strides, const std::vector<size_t>& axes) {
  Side side;
  bool first = true;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t extent = type.shape[axes[i]];
    if (extent == 1) continue;
    if (first) side.stride = strides[axes[i]];
    else if (strides[axes[i]] != side.stride * side.extent) side.even = false;
    side.extent *= extent;
    first = false;
  }
  return side;
}

// An operand as [batch, other, contracted], moved there if its axes do not allow to read it so.
struct Matrix {
  Operand place;
  Side batch, other, depth;
};
Matrix matrix_of(Emitter& emitter, const Type& type, const Operand& place, const Shape& batch, const Shape& contract) {
  std::vector<size_t> groups[3];
  std::vector<bool> taken(type.rank(), false);
  const auto take = [&](const Shape& axes, std::vector<size_t>& into) {
    for (const int64_t axis : axes) {
      if (axis < 0 || static_cast<size_t>(axis) >= type.rank() || taken[static_cast<size_t>(axis)])
        backend::fail(TRANSOM_INVALID_ARGUMENT, "dot_general: axis {} of {} is none, or named twice", axis,
                      backend::to_string(type));
      taken[static_cast<size_t>(axis)] = true;
      into.push_back(static_cast<size_t>(axis));
    }
  };
  take(batch, groups[0]);
  take(contract, groups[2]);
  for (size_t i = 0; i < type.rank(); ++i)
    if (!taken[i]) groups[1].push_back(i);
  const Shape strides = strides_of(type.shape);
  Matrix matrix{place, joined(type, strides, groups[0]), joined(type, strides, groups[1]),
                joined(type, strides, groups[2])};
  if (matrix.batch.even && matrix.other.even && matrix.depth.even) return matrix;
  Box box;
  for (const auto& group : groups)
    for (const size_t axis : group) {
      box.extents.push_back(type.shape[axis]);
      box.from_strides.push_back(strides[axis]);
    }
  box.to_strides = strides_of(box.extents);
  matrix.place = emitter.scratch(static_cast<int64_t>(type.bytes()));
  lower_box(emitter, place, matrix.place, backend::element_size(type.dtype), box, "product operand");
  matrix.depth.stride = 1;
  matrix.other.stride = matrix.depth.extent;
  matrix.batch.stride = matrix.depth.extent * matrix.other.extent;
  return matrix;
}

// How a library reads an operand whose lines and whose depth have these strides; none if neither is 1.
std::optional<ProductShape::Side> side_of(int64_t line_stride, int64_t lines, int64_t depth_stride, int64_t depth,
                                          int64_t batch_stride) {
  if ((depth_stride == 1 || depth == 1) && line_stride >= depth) return {{false, line_stride, batch_stride}};
  if ((depth_stride == 1 || depth == 1) && lines == 1) return {{false, depth, batch_stride}};
  if ((line_stride == 1 || lines == 1) && depth_stride >= lines) return {{true, depth_stride, batch_stride}};
  return std::nullopt;
}

bool multiplied_by_library(Emitter& emitter, const Product& p, const Operand& x, const Operand& y,
                           ProductEpilogue epilogue, const Operand* vector, const Operand& out, bool tf32) {
  const auto left = side_of(p.x_row, p.rows, p.x_depth, p.depth, p.x_batch);
  const auto right = side_of(p.y_column, p.columns, p.y_depth, p.depth, p.y_batch);
  const bool types = p.from == TRANSOM_FLOAT32 || backend::is_half(p.from);
  if (!types || (p.to != p.from && p.to != TRANSOM_FLOAT32)) return false;
  if (!left || !right || p.depth == 0) return false;
  return emitter.multiply(
      {p.batch, p.rows, p.columns, p.depth, *left, *right, p.from, p.to, epilogue, tf32 && p.from == TRANSOM_FLOAT32},
      x, y, vector, out);
}

// Which axes of an operand are batches, and which are contracted.
struct OperandAxes {
  Shape batch, contract;
};
OperandAxes axes_of(const Node& node, size_t input) {
  if (node.op() == "linear") return {{}, {static_cast<int64_t>(node.input(input).rank()) - 1}};
  if (node.op() == "linear_weight_gradient") return {{}, {0}};
  return input == 0 ? OperandAxes{node.integers("x_batch"), node.integers("x_contract")}
                    : OperandAxes{node.integers("y_batch"), node.integers("y_contract")};
}

void lower_product(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const Type &x = node.input(0), &y = node.input(1), &out = node.output();
  // The second output of linear_weight_gradient.
  const Operand* const sums = node.op() == "linear_weight_gradient" ? &work.outputs.at(1) : nullptr;
  const auto sum_columns = [&] { lower_column_sums(emitter, x, work.inputs[0], *sums); };
  if (out.count() == 0) return sums ? sum_columns() : void();
  const OperandAxes of_x = axes_of(node, 0), of_y = axes_of(node, 1);
  const Matrix a = matrix_of(emitter, x, work.inputs[0], of_x.batch, of_x.contract);
  const Matrix b = matrix_of(emitter, y, work.inputs[1], of_y.batch, of_y.contract);
  if (a.batch.extent != b.batch.extent || a.depth.extent != b.depth.extent ||
      a.batch.extent * a.other.extent * b.other.extent != out.count() || x.dtype != y.dtype)
    backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: {} and {} do not make {}", node.place(), backend::to_string(x),
                  backend::to_string(y), backend::to_string(out));
  const Product p{a.batch.extent, a.other.extent, b.other.extent, a.depth.extent, a.batch.stride, a.other.stride,
                  a.depth.stride, b.batch.stride, b.other.stride, b.depth.stride, x.dtype,        out.dtype};
  const bool biased = node.op() == "linear" && work.inputs.size() > 2;
  const Operand* const bias = biased ? &work.inputs[2] : nullptr;
  const transom_dtype bias_type = biased ? node.input(2).dtype : TRANSOM_FLOAT32;
  // A library chooses its kernel by the number of rows, and so the bits of a row: not where they may not depend on it.
  const bool may = node.integer("batch_invariant", 0) == 0 && (!biased || bias_type == p.to);
  const auto by_library = [&](ProductEpilogue epilogue, const Operand* vector) {
    return may && multiplied_by_library(emitter, p, a.place, b.place, epilogue, vector, work.outputs[0],
                                        node.integer("tf32", 0) != 0);
  };
  const bool with_sums = sums && by_library(ProductEpilogue::kSums, sums);
  const bool multiplied = with_sums || by_library(biased ? ProductEpilogue::kBias : ProductEpilogue::kNone, bias);
  const size_t own = emitter.launches.size();
  const bool wide = is_wide(x) || is_wide(y) || is_wide(out);
  if (backend::is_half(p.from) && (p.to == p.from || p.to == TRANSOM_FLOAT32))
    launch_fragment_product(emitter, {p, a.place, b.place, work.outputs[0], bias, bias_type, wide, nullptr, 0,
                                      multiplied ? nullptr : work.following});
  else launch_product(emitter, p, a.place, b.place, bias, bias_type, work.outputs[0], wide);
  if (with_sums) sum_columns();
  if (multiplied) emitter.make_otherwise(own);
  if (sums && !with_sums) sum_columns();
}

}  // namespace

void add_product_lowerings(LoweringTable& table) {
  table["dot_general"] = lower_product;
  for (const char* op : {"linear", "linear_weight_gradient"}) table[op] = {lower_product, claims_floats};
}

}  // namespace transom::gpu
