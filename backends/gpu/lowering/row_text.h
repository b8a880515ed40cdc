// SPDX-License-Identifier: Apache-2.0
// The text of kernels in which a group computes a row; what it needs of the whole row it sums first. Values are
// computed in f32 (f64 of f64), and rounded once.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <set>

#include "gpu/lowering/lowering.h"
#include "gpu/source/streams.h"

namespace transom::gpu {

// Elements of a row that a thread holds in registers, so that memory is read once; 0: the row is too long for that, and
// read in each pass. Few cases, since each is another kernel. They add in the same order: a thread takes neighbours, as
// many as a vector has, of every kGroup-th vector.
inline int64_t held_by_thread(int64_t length) {
  for (const int64_t held : {4, 16})
    if (length <= held * kGroup) return held;
  return 0;
}

// The loop around `body`, which computes element i of a row of n elements that begins at "base". A thread takes `lanes`
// neighbours at a time, as a vector where addresses allow it: the order is the same. `held`: of as many elements, a
// multiple of `lanes`, and the body knows the place e of i among them; 0: as many as there are.
inline void write_row_loop(KernelText& text, std::string body, const std::string& n, int64_t lanes, int64_t held = 0) {
  const Streams streams(text, std::move(body));
  const std::string e = held == 0 ? "" : fmt::format("const int e = vector * {} + lane;\n", lanes);
  if (held == 0) {
    text.line("for (idx first = THREAD * {0}; first < {1}; first += {2} * {0}) {{", lanes, n, kGroup);
  } else {
    text.line("#pragma unroll\nfor (int vector = 0; vector < {}; ++vector) {{", held / lanes);
    text.line("const idx first = (vector * {} + THREAD) * {};", kGroup, lanes);
  }
  if (!streams.empty()) {
    text.line("if ({} && first + {} <= {}) {{", streams.aligned(), lanes, n);
    streams.write_vectors(lanes, "first", e);
    text.line("}} else {{");
  }
  text.line(
      "#pragma unroll\nfor (int lane = 0; lane < {0}; ++lane) {{\nconst idx i = first + lane;\n{1}if (i < {2}) {{",
      lanes, e, n);
  text.raw(streams.body());
  text.raw(streams.empty() ? "}\n}\n}\n" : "}\n}\n}\n}\n");
}
// Neighbours that a thread takes.
inline int64_t row_lanes(transom_dtype dtype) { return backend::element_size(dtype) == 8 ? 2 : 4; }

// A kernel that walks rows of `length` elements: names of its parts for the text.
class RowText {
 public:
  // `rows_read`: the inputs of which each element of a row is needed in several passes.
  RowText(const Work& work, const Type& x, std::initializer_list<size_t> rows_read)
      : text(is_wide(x)), work_(work), type_(compute_type(x.dtype)), length_(x.rank() ? x.shape.back() : 1) {
    rows_ = length_ ? x.count() / length_ : 0;
    held_ = held_by_thread(length_);
    lanes_ = row_lanes(x.dtype);
    n = text.number(length_);
    text.local(type_, "memory", kGroup);
    text.line("for (idx row = GROUP; row < {}; row += GROUPS) {{", text.number(rows_));
    text.line("const idx base = row * {};", n);
    if (held_ == 0) return;
    for (const size_t k : rows_read) text.line("{} held{}[{}];", type_, k, held_);
    begin_elements();
    for (const size_t k : rows_read) text.line("held{}[e] = {};", k, input(k));
    end_elements();
    for (const size_t k : rows_read) is_held_.insert(k);
  }

  // The element i of a row of input k, or of a vector that all rows share.
  std::string input(size_t k, bool shared = false) {
    return is_held_.contains(k) ? fmt::format("held{}[e]", k) : in_memory(k, shared);
  }
  // The same, read from memory.
  std::string in_memory(size_t k, bool shared = false) {
    const transom_dtype dtype = work_.node.input(k).dtype;
    return fmt::format(
        "(({}){})", type_,
        load(text, dtype, text.address(work_.inputs[k], storage_type(dtype)), shared ? "i" : "base + i"));
  }
  // From here on input k is this instead, if its rows are held; in a loop over elements.
  bool replace(size_t k, const std::string& value) {
    if (is_held_.contains(k)) text.line("held{}[e] = {};", k, value);
    return is_held_.contains(k);
  }
  void output(size_t k, const std::string& value) {
    const transom_dtype dtype = work_.node.output(k).dtype;
    text.line("{}", store(text, dtype, text.address(work_.outputs[k], storage_type(dtype)), "base + i", value));
  }
  // A loop over the elements i of this thread, the e-th of those that it holds.
  void begin_elements() { begin_ = text.size(); }
  void end_elements() { write_row_loop(text, text.cut(begin_), n, lanes_, held_); }

  // Declares `name`, the sum of an expression over the row.
  void sum(const std::string& name, const std::function<std::string()>& expression) {
    text.line("{} {} = 0;", type_, name);
    begin_elements();
    const std::string value = expression();
    text.line("{} += {};", name, value);
    end_elements();
    write_group_sum(text, name, "memory");
  }
  // Two sums in one pass.
  void sums(const std::string& first, const std::string& of_first, const std::string& second,
            const std::string& of_second) {
    text.local(type_, "memory2", kGroup);
    text.line("{} {} = 0, {} = 0;", type_, first, second);
    begin_elements();
    text.line("{} += {};\n{} += {};", first, of_first, second, of_second);
    end_elements();
    write_group_sums(text, {{first, "memory"}, {second, "memory2"}});
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
  int64_t length_, rows_, held_, lanes_;
  size_t begin_ = 0;  // of the body of the loop over elements that is being written
  std::set<size_t> is_held_;
};

}  // namespace transom::gpu
