// SPDX-License-Identifier: Apache-2.0
// What moves elements without computing: boxes of elements of one tensor come to boxes of another.
#include <algorithm>

#include "gpu/lowering/lowering.h"

namespace transom::gpu {
namespace {

// Joins axes along which both sides go on where the inner one ends, and drops those of one element.
void collapse(Box& box) {
  Box result{{}, {}, {}, box.from_start, box.to_start};
  for (size_t i = 0; i < box.extents.size(); ++i) {
    if (box.extents[i] == 1) continue;
    if (!result.extents.empty() && result.from_strides.back() == box.from_strides[i] * box.extents[i] &&
        result.to_strides.back() == box.to_strides[i] * box.extents[i]) {
      result.extents.back() *= box.extents[i];
      result.from_strides.back() = box.from_strides[i];
      result.to_strides.back() = box.to_strides[i];
      continue;
    }
    result.extents.push_back(box.extents[i]);
    result.from_strides.push_back(box.from_strides[i]);
    result.to_strides.push_back(box.to_strides[i]);
  }
  box = std::move(result);
}

int64_t reach(const Shape& extents, const Shape& strides) {
  int64_t result = 0;
  for (size_t i = 0; i < extents.size(); ++i) result += (extents[i] - 1) * std::abs(strides[i]);
  return result;
}

// How many neighbours move as one, so that 16 bytes or less move at a time: a whole number of them everywhere.
int64_t neighbours(const Box& box, size_t element) {
  if (box.extents.empty() || box.from_strides.back() != 1 || box.to_strides.back() != 1) return 1;
  int64_t all = box.extents.back() | box.from_start | box.to_start;
  for (size_t i = 0; i + 1 < box.extents.size(); ++i) all |= box.from_strides[i] | box.to_strides[i];
  return std::min(all & -all, 16 / static_cast<int64_t>(element));
}

Box in_units(Box box, int64_t of) {
  box.from_start /= of, box.to_start /= of, box.extents.back() /= of;
  for (size_t i = 0; i + 1 < box.extents.size(); ++i) box.from_strides[i] /= of, box.to_strides[i] /= of;
  return box;
}

// Statements for `from` and `to`, the places of element i of the box.
void write_places(KernelText& text, const Box& box) {
  std::string from = text.number(box.from_start), to = text.number(box.to_start);
  std::string rest = "i";
  for (size_t axis = box.extents.size(); axis-- > 0;) {
    std::string index = rest;
    if (axis > 0) {
      const std::string extent = text.number(box.extents[axis]);
      text.line("const idx i{0} = {1} % {2}, r{0} = {1} / {2};", axis, rest, extent);
      index = fmt::format("i{}", axis);
      rest = fmt::format("r{}", axis);
    }
    from += fmt::format(" + {} * {}", index, text.number(box.from_strides[axis]));
    to += fmt::format(" + {} * {}", index, text.number(box.to_strides[axis]));
  }
  text.line("const idx from = {};\nconst idx to = {};", from, to);
}

void lower_pad(Emitter& emitter, const Work& work) {
  const Type &x = work.node.input(0), &y = work.node.output();
  KernelText fill(is_wide(y));
  const std::string to = fill.address(work.outputs[0], storage_type(y.dtype));
  fill.line("{}", loop_over("i", fill.number(y.count())));
  fill.line("{}", store(fill, y.dtype, to, "i", argument(fill, y.dtype, work.node.number("value"))));
  emitter.launch(fill, groups_for(y.count()), "pad fill");
  Box box{x.shape, strides_of(x.shape), strides_of(y.shape), 0, 0};
  const Shape& low = work.node.integers("low");
  for (size_t i = 0; i < low.size(); ++i) box.to_start += low[i] * box.to_strides.at(i);
  lower_box(emitter, work.inputs[0], work.outputs[0], backend::element_size(x.dtype), box, "pad");
}

// dynamic_slice and dynamic_update_slice: the start is in device memory, and is moved inwards until the window fits.
void lower_dynamic(Emitter& emitter, const Work& work) {
  const bool update = work.node.op() == "dynamic_update_slice";
  const Type& x = work.node.input(0);
  const Type& window = update ? work.node.input(1) : work.node.output();
  const Operand& starts = work.inputs.at(update ? 2 : 1);
  const size_t element = backend::element_size(x.dtype);
  if (update)
    lower_copy(emitter, work.inputs[0], work.outputs[0], static_cast<int64_t>(x.bytes()), "dynamic_update_slice");
  const int64_t count = window.count();
  if (count == 0) return;
  if (window.rank() != x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected one rank", work.node.place());
  KernelText text(is_wide(x));
  const std::string from = text.address(work.inputs[update ? 1 : 0], moved_type(element));
  const std::string to = text.address(work.outputs[0], moved_type(element));
  const std::string at = text.address(starts, "i64");
  const Shape strides = strides_of(x.shape);
  text.line("idx start = 0;");
  for (size_t axis = 0; axis < x.rank(); ++axis) {
    const std::string last = text.number(x.shape[axis] - window.shape[axis]);
    text.line("start += ({0}[{1}] < 0 ? 0 : {0}[{1}] > {2} ? {2} : (idx){0}[{1}]) * {3};", at, axis, last,
              text.number(strides[axis]));
  }
  text.line("{} {{", loop_over("i", text.number(count)));
  Box box{window.shape, strides, strides_of(window.shape), 0, 0};
  write_places(text, box);
  if (update) text.line("{}[start + from] = {}[i];\n}}", to, from);
  else text.line("{}[i] = {}[start + from];\n}}", to, from);
  emitter.launch(text, groups_for(count), work.node.op());
}

}  // namespace

const char* moved_type(size_t bytes) { return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64"; }

void write_in_units(KernelText& text, const std::string& source, const std::string& target, size_t element,
                    int64_t unit, const std::function<void(const std::string& type, int64_t of)>& write) {
  const std::string type = moved_type(element);
  if (unit > 1) {
    text.line("if ((((u64){} | (u64){}) & {}) == 0) {{", source, target, static_cast<size_t>(unit) * element - 1);
    write(text.vector_type(type, unit), unit);
    text.line("}} else");
  }
  write(type, 1);
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void lower_box(Emitter& emitter, const Operand& from, const Operand& to, size_t element, Box box, const char* label) {
  const int64_t count = backend::product(box.extents);
  if (count == 0) return;
  collapse(box);
  const int64_t most = std::max({count, reach(box.extents, box.from_strides) + box.from_start,
                                 reach(box.extents, box.to_strides) + box.to_start});
  KernelText text(most >= (int64_t{1} << 30));
  const std::string source = text.address(from, moved_type(element)), target = text.address(to, moved_type(element));
  const int64_t unit = neighbours(box, element);
  write_in_units(text, source, target, element, unit, [&](const std::string& type, int64_t of) {
    const Box places = of == 1 ? box : in_units(box, of);
    text.line("{} {{", loop_over("i", text.number(backend::product(places.extents))));
    write_places(text, places);
    text.line("VECTOR({0}, {1} + to * {3}) = VECTOR({0}, {2} + from * {3});\n}}", type, target, source, of);
  });
  emitter.launch(text, groups_for(count / unit), label);
}

void lower_copy(Emitter& emitter, const Operand& from, const Operand& to, int64_t bytes, const char* label) {
  if (from == to || bytes == 0) return;
  const size_t element = bytes % 8 == 0 ? 8 : 1;
  const int64_t count = bytes / static_cast<int64_t>(element);
  KernelText text(count >= (int64_t{1} << 30));
  const std::string source = text.address(from, moved_type(element)), target = text.address(to, moved_type(element));
  text.line("if ({} == {}) return;", source, target);
  write_loops(text, text.number(count), fmt::format("{}[i] = {}[i];\n", target, source), count);
  emitter.launch(text, groups_for(count), label);
}

namespace {

void lower_movement(Emitter& emitter, const Work& work) {
  const std::string& op = work.node.op();
  if (op == "pad") return lower_pad(emitter, work);
  if (op == "dynamic_slice" || op == "dynamic_update_slice") return lower_dynamic(emitter, work);
  const Type& y = work.node.output();
  if (op == "reshape")
    return lower_copy(emitter, work.inputs.at(0), work.outputs[0], static_cast<int64_t>(y.bytes()), "reshape");
  if (op == "concatenate") {
    const auto axis = static_cast<size_t>(work.node.integer("axis"));
    const Shape strides = strides_of(y.shape);
    int64_t start = 0;
    for (size_t i = 0; i < work.inputs.size(); ++i) {
      const Type& x = work.node.input(i);
      lower_box(emitter, work.inputs[i], work.outputs[0], backend::element_size(x.dtype),
                {x.shape, strides_of(x.shape), strides, 0, start}, "concatenate");
      start += x.shape.at(axis) * strides[axis];
    }
    return;
  }
  const Type& x = work.node.input(0);
  Box box{y.shape, {}, strides_of(y.shape), 0, 0};
  const Shape strides = strides_of(x.shape);
  if (op == "permute") {
    for (const int64_t axis : work.node.integers("permutation"))
      box.from_strides.push_back(strides.at(static_cast<size_t>(axis)));
  } else {
    box.from_strides = strides;
    if (y.rank() != x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected one rank", work.node.place());
  }
  if (op == "broadcast") {
    for (size_t i = 0; i < x.rank(); ++i)
      if (x.shape[i] != y.shape[i]) box.from_strides[i] = 0;
  } else if (op == "slice") {
    const Shape &starts = work.node.integers("starts"), &steps = work.node.integers("strides");
    for (size_t i = 0; i < x.rank(); ++i) {
      box.from_start += starts.at(i) * strides[i];
      box.from_strides[i] *= steps.at(i);
    }
  } else if (op == "reverse") {
    for (const int64_t axis : work.node.integers("axes")) {
      const auto i = static_cast<size_t>(axis);
      box.from_start += (x.shape.at(i) - 1) * strides[i];
      box.from_strides[i] *= -1;
    }
  } else if (op != "permute") {
    backend::fail(TRANSOM_UNSUPPORTED, "{}: the device has no such operation", work.node.place());
  }
  lower_box(emitter, work.inputs[0], work.outputs[0], backend::element_size(x.dtype), box, op.c_str());
}

}  // namespace

void add_movement_lowerings(LoweringTable& table) {
  for (const char* op : {"reshape", "permute", "broadcast", "slice", "pad", "concatenate", "reverse", "dynamic_slice",
                         "dynamic_update_slice"})
    table[op] = lower_movement;
}

}  // namespace transom::gpu
