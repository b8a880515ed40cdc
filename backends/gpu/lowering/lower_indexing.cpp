// SPDX-License-Identifier: Apache-2.0
// gather, scatter and scatter_add. Indices outside of x are moved to its nearest end, so that no kernel
// leaves its memory; of scatter they set nothing.
#include <algorithm>

#include "gpu/lowering/lowering.h"

namespace transom::gpu {
namespace {

struct Picks {
  int64_t outer, extent, inner, count;  // of x[outer, extent, inner]; count: indices
  transom_dtype index_type;
};

Picks picks_of(const Work& work) {
  const Type &x = work.node.input(0), &indices = work.node.input(1);
  const auto axis = static_cast<size_t>(work.node.integer("axis"));
  if (axis >= x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: no axis {}", work.node.place(), axis);
  return {backend::product(x.shape, 0, axis), x.shape[axis], backend::product(x.shape, axis + 1, x.rank()),
          indices.count(), indices.dtype};
}

void lower_gather(Emitter& emitter, const Work& work, const Picks& p) {
  const Type &x = work.node.input(0), &y = work.node.output();
  if (y.count() == 0) return;
  const size_t element = backend::element_size(x.dtype);
  const char* type = moved_type(element);
  KernelText text(is_wide(x) || is_wide(y));
  const std::string from = text.address(work.inputs[0], type), to = text.address(work.outputs[0], type);
  const std::string indices = text.address(work.inputs[1], storage_type(p.index_type));
  const std::string count = text.number(p.count), extent = text.number(p.extent);
  const int64_t unit = std::min(p.inner & -p.inner, 16 / static_cast<int64_t>(element));
  write_in_units(text, from, to, element, unit, [&](const std::string& moved, int64_t of) {
    const std::string inner = text.number(p.inner / of);
    text.line("{} {{", loop_over("i", text.number(y.count() / of)));
    text.line("const idx column = i % {0}, row = i / {0}, pick = row % {1}, outer = row / {1};", inner, count);
    text.line("i64 at = (i64){0}[pick];\nat = at < 0 ? 0 : at >= {1} ? {1} - 1 : at;", indices, extent);
    text.line("VECTOR({0}, {1} + i * {2}) =", moved, to, of);
    text.line("VECTOR({0}, {1} + ((outer * {2} + (idx)at) * {3} + column) * {4});\n}}", moved, from, extent, inner, of);
  });
  emitter.launch(text, groups_for(y.count() / unit), "gather");
}

// The indices are sorted with their places; the first of each run adds all of its run, in the order of their places.
void lower_scatter_add(Emitter& emitter, const Work& work, const Picks& p) {
  const Type& x = work.node.input(0);
  lower_copy(emitter, work.inputs[0], work.outputs[0], static_cast<int64_t>(x.bytes()), "scatter_add copy");
  const int64_t count = p.outer * p.count * p.inner;
  if (count == 0 || p.extent == 0) return;
  const Operand pairs = emitter.scratch(p.count * 16);
  {
    KernelText text;
    const std::string indices = text.address(work.inputs[1], storage_type(p.index_type));
    const std::string keys = text.address(pairs, "u64"), order = text.address(pairs, "i64");
    const std::string n = text.number(p.count), extent = text.number(p.extent);
    text.line("GLOBAL u64* key = {};\nGLOBAL i64* place = {} + {};", keys, order, n);
    text.line("for (idx i = THREAD; i < {}; i += {}) {{", n, kGroup);
    text.line("i64 at = (i64){0}[i];\nat = at < 0 ? 0 : at >= {1} ? {1} - 1 : at;", indices, extent);
    text.line("key[i] = (u64)at;\nplace[i] = i;\n}}");
    write_sort(text, "key", "place", n);
    emitter.launch(text, 1, "scatter_add order");
  }
  KernelText text(is_wide(x) || count >= (int64_t{1} << 30));
  const char* type = compute_type(x.dtype);
  const std::string updates = text.address(work.inputs[2], storage_type(x.dtype));
  const std::string to = text.address(work.outputs[0], storage_type(x.dtype));
  const std::string keys = text.address(pairs, "u64"), order = text.address(pairs, "i64");
  const std::string n = text.number(p.count), inner = text.number(p.inner), extent = text.number(p.extent);
  text.line("{} {{", loop_over("i", text.number(count)));
  text.line("const idx column = i % {0}, row = i / {0}, pick = row % {1}, outer = row / {1};", inner, n);
  text.line("const u64 at = {}[pick];", keys);
  text.line("if (pick > 0 && {}[pick - 1] == at) continue;", keys);
  text.line("const idx target = (outer * {} + (idx)at) * {} + column;", extent, inner);
  text.line("{} sum = {};", type, load(text, x.dtype, to, "target"));
  text.line("for (idx k = pick; k < {} && {}[k] == at; ++k) {{", n, keys);
  text.line("const idx source = (outer * {0} + (idx){1}[{0} + k]) * {2} + column;", n, order, inner);
  const std::string update = load(text, x.dtype, updates, "source");
  if (backend::is_floating(x.dtype)) text.line("sum += {};\n}}", update);
  else text.line("sum = ({})((u64)sum + (u64){});\n}}", type, update);
  text.line("{}\n}}", store(text, x.dtype, to, "target", "sum"));
  emitter.launch(text, groups_for(count, 1), "scatter_add");
}

// A group for each row of updates, which it writes unless a later one has the same index.
void lower_scatter(Emitter& emitter, const Work& work) {
  const Type &x = work.node.input(0), &indices = work.node.input(1);
  lower_copy(emitter, work.inputs[0], work.outputs[0], static_cast<int64_t>(x.bytes()), "scatter copy");
  const int64_t count = indices.count(), inner = x.rank() ? backend::product(x.shape, 1, x.rank()) : 0;
  if (count == 0 || inner == 0 || x.shape[0] == 0) return;
  const char* type = moved_type(backend::element_size(x.dtype));
  KernelText text(is_wide(x) || count * inner >= (int64_t{1} << 30));
  const std::string places = text.address(work.inputs[1], storage_type(indices.dtype));
  const std::string updates = text.address(work.inputs[2], type), to = text.address(work.outputs[0], type);
  const std::string n = text.number(count), width = text.number(inner);
  text.local("int", "later", kGroup);
  text.line("for (idx row = GROUP; row < {}; row += GROUPS) {{", n);
  // Every thread comes to each barrier, also where nothing is to be written.
  text.line("const i64 at = (i64){}[row];\nint idle = at < 0 || at >= {};", places, text.number(x.shape[0]));
  text.line("for (idx k = row + 1 + THREAD; k < {}; k += {}) idle |= (i64){}[k] == at;", n, kGroup, places);
  text.line("later[THREAD] = idle;\nBARRIER;");
  text.line("for (int span = {}; span > 0; span >>= 1) {{", kGroup / 2);
  text.line("if (THREAD < span) later[THREAD] |= later[THREAD + span];\nBARRIER;\n}}");
  text.line("idle = later[0];\nBARRIER;");
  text.line("if (!idle) for (idx c = THREAD; c < {0}; c += {1}) {2}[(idx)at * {0} + c] = {3}[row * {0} + c];\n}}",
            width, kGroup, to, updates);
  emitter.launch(text, std::min<int64_t>(count, 1 << 16), "scatter");
}

void lower_indexing(Emitter& emitter, const Work& work) {
  const Picks p = picks_of(work);
  if (work.node.op() == "gather") {
    if (p.extent == 0 && work.node.output().count() > 0)
      backend::fail(TRANSOM_INVALID_ARGUMENT, "gather: expected elements to pick from, found none");
    return lower_gather(emitter, work, p);
  }
  lower_scatter_add(emitter, work, p);
}

}  // namespace

void add_indexing_lowerings(LoweringTable& table) {
  table["gather"] = lower_indexing;
  table["scatter_add"] = lower_indexing;
  table["scatter"] = {lower_scatter, claims_always};
}

}  // namespace transom::gpu
