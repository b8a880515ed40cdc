// SPDX-License-Identifier: Apache-2.0
// sort and top_k: one group a line sorts pairs of a key and a place in device memory, by both, so that it is stable.
// The network is Batcher's bitonic one with mirrored first steps: every exchange puts the smaller pair first, and a
// line whose length is no power of two needs no elements beyond it.
#include "gpu/lowering/lowering.h"

namespace transom::gpu {

void write_sort(KernelText& text, const std::string& key, const std::string& place, const std::string& length) {
  text.line("for (idx size = 2; size < {} * 2; size <<= 1) {{", length);
  text.line("for (idx step = size >> 1; step > 0; step >>= 1) {{");
  text.line("BARRIER;");
  text.line("for (idx pair = THREAD; pair < {} ; pair += {}) {{", length, kGroup);
  text.line("const idx low = pair / step * step * 2 + pair % step;");
  text.line("const idx high = step == size >> 1 ? low / size * size + size - 1 - low % size : low + step;");
  text.line("if (high < {}) {{", length);
  text.line("const u64 a = {0}[low], b = {0}[high];\nconst i64 p = {1}[low], q = {1}[high];", key, place);
  text.line("if (a > b || (a == b && p > q)) {{ {0}[low] = b; {0}[high] = a; {1}[low] = q; {1}[high] = p; }}", key,
            place);
  text.line("}}\n}}\n}}\n}}\nBARRIER;");
}

std::string sort_key(KernelText&, transom_dtype dtype, const std::string& v, bool descending, bool nan_last) {
  std::string key;
  if (dtype == TRANSOM_FLOAT64)
    key = fmt::format(
        "({0} == 0 ? 0x8000000000000000UL : as_ulong({0}) >> 63 ? ~as_ulong({0}) "
        ": as_ulong({0}) | 0x8000000000000000UL)",
        v);
  else if (backend::is_floating(dtype))
    key = fmt::format("(u64)({0} == 0 ? 0x80000000u : as_uint({0}) >> 31 ? ~as_uint({0}) : as_uint({0}) | 0x80000000u)",
                      v);
  else key = fmt::format("((u64)(i64){} ^ 0x8000000000000000UL)", v);
  if (descending) key = fmt::format("~{}", key);
  if (!backend::is_floating(dtype)) return key;
  return fmt::format("({0} != {0} ? {1} : {2})", v, nan_last ? "~(u64)0" : "(u64)0", key);
}

namespace {

void lower_ordering(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const Type& x = node.input(0);
  const bool top = node.op() == "top_k";
  const auto axis = top ? x.rank() - 1 : static_cast<size_t>(node.integer("axis"));
  if (axis >= x.rank()) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: no axis {}", node.place(), axis);
  const int64_t length = x.shape[axis], keep = node.output(0).shape.at(axis);
  if (x.count() == 0 || keep == 0) return;
  if (keep > length) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: k = {} does not fit {}", node.place(), keep, length);
  const int64_t inner = backend::product(x.shape, axis + 1, x.rank()), lines = x.count() / length;
  const bool descending = top || node.integer("descending") != 0;
  const int64_t groups = std::min<int64_t>(lines, 4096);  // each with its pairs in scratch memory
  const Operand pairs = emitter.scratch(groups * length * 16);
  const char* type = compute_type(x.dtype);

  KernelText text(x.count() + groups * length * 2 >= (int64_t{1} << 29));
  const std::string from = text.address(work.inputs[0], storage_type(x.dtype));
  const std::string values = text.address(work.outputs[0], storage_type(x.dtype));
  const std::string places = text.address(work.outputs[1], "i64");
  const std::string keys = text.address(pairs, "u64"), order = text.address(pairs, "i64");
  const std::string in = text.number(inner), n = text.number(length), k = text.number(keep);
  text.line("GLOBAL u64* key = {} + GROUP * {} * 2;\nGLOBAL i64* place = {} + (GROUP * 2 + 1) * {};", keys, n, order,
            n);
  text.line("for (idx o = GROUP; o < {}; o += GROUPS) {{", text.number(lines));
  text.line("const idx base = (o / {0}) * {1} * {0} + o % {0}, to = (o / {0}) * {2} * {0} + o % {0};", in, n, k);
  text.line("for (idx i = THREAD; i < {}; i += {}) {{", n, kGroup);
  text.line("const {} v = {};", type, load(text, x.dtype, from, fmt::format("base + i * {}", in)));
  text.line("key[i] = {};\nplace[i] = i;\n}}", sort_key(text, x.dtype, "v", descending, !top));
  write_sort(text, "key", "place", n);
  text.line("for (idx i = THREAD; i < {}; i += {}) {{", k, kGroup);
  text.line("const idx at = (idx)place[i];");
  text.line("{1}[to + i * {3}] = {0}[base + at * {3}];\n{2}[to + i * {3}] = at;\n}}\nBARRIER;\n}}", from, values,
            places, in);
  emitter.launch(text, groups, node.op());
}

}  // namespace

void add_ordering_lowerings(LoweringTable& table) {
  table["sort"] = lower_ordering;
  table["top_k"] = lower_ordering;
}

}  // namespace transom::gpu
