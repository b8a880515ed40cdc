// SPDX-License-Identifier: Apache-2.0
// The text of one kernel under construction, together with what it is launched with. The text is written in the macros
// of source/prelude.h, so that it is the same for every vendor. Extents and strides are arguments, not part of the
// text: a new shape compiles nothing.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/api/api.h"
#include "transom/plugin/types.h"

namespace transom::gpu {

using backend::Shape;
using backend::Type;

// Where a kernel finds memory when it is launched: a value of the graph, or the stream's scratch memory, plus bytes.
struct Operand {
  enum Kind { kValue, kScratch } kind = kValue;
  size_t index = 0;   // kValue
  size_t offset = 0;  // bytes
  bool operator==(const Operand&) const = default;
};

class KernelText {
 public:
  // `wide`: indices need 64 bits, because some tensor has 2^31 elements or more.
  explicit KernelText(bool wide = false) : wide_(wide) {}

  // The name of a parameter that holds the address, of elements of `type` ("float"). The same operand seen as the same
  // type is one parameter.
  std::string address(const Operand& operand, std::string_view type);
  // The name of an index with this value: a parameter, or a literal once there are as many as all devices take.
  std::string number(int64_t value);
  // The name of a parameter of 64 bits, for seeds and bits of floating numbers.
  std::string bits(int64_t value);
  // Whether all devices take another argument of a number.
  bool has_room() const;
  // The name of a type of `count` neighbours of `type` in memory, which VECTOR reads and writes at once.
  std::string vector_type(std::string_view type, int64_t count);
  // Memory of a group. OpenCL has it at the beginning of a kernel only.
  void local(std::string_view type, std::string_view name, int64_t count);
  // Makes a function of source/functions.h known. Gives its name back.
  std::string_view use(std::string_view function);

  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Arguments>(arguments)...);
    body_ += '\n';
  }
  // Text without places to fill in.
  void raw(std::string_view text) { body_ += text; }
  // What was written since the body had this size, taken out again.
  size_t size() const { return body_.size(); }
  std::string cut(size_t from);
  // A new name that begins with `stem`.
  std::string fresh(std::string_view stem) { return fmt::format("{}{}", stem, ++names_); }

  // The whole text, with the prelude of the dialect.
  std::string text(Dialect dialect) const;
  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<int64_t>& numbers() const { return numbers_; }
  const std::string& type_of_operand(size_t i) const { return operand_types_[i]; }

 private:
  friend class MergedText;
  std::string head(Dialect dialect) const;  // what stands before the kernel
  bool wide_;
  size_t names_ = 0;
  std::vector<Operand> operands_;
  std::vector<std::string> operand_types_;
  std::vector<int64_t> numbers_;
  std::vector<bool> is_bits_;
  std::string locals_, body_;
  std::set<std::string, std::less<>> functions_, types_;
};

// ---- element types in the text

const char* storage_type(transom_dtype dtype);   // "u16": what memory holds
int64_t size_of(std::string_view storage_type);  // bytes
const char* compute_type(transom_dtype dtype);  // "float": what is computed with; f16 and bf16 are rounded at each node
// The element at `place` of the address, as its compute type.
std::string load(KernelText& text, transom_dtype dtype, const std::string& address, const std::string& place);
// The statement that writes a value of the compute type.
std::string store(KernelText& text, transom_dtype dtype, const std::string& address, const std::string& place,
                  const std::string& value);
// The value rounded to what the element type holds, still of the compute type.
std::string rounded(KernelText& text, transom_dtype dtype, const std::string& value);
// A number of the compute type as a literal that has its bits.
std::string literal(KernelText& text, transom_dtype dtype, double value);
std::string literal(KernelText& text, transom_dtype dtype, int64_t value);
// The number as an argument, so that kernels which differ in it alone are one; a literal once there are as many
// arguments as all devices take.
std::string argument(KernelText& text, transom_dtype dtype, double value);
std::string argument(KernelText& text, transom_dtype dtype, int64_t value);
// What does nothing to a sum (0), a maximum (-inf or the lowest) or a minimum.
std::string neutral(KernelText& text, transom_dtype dtype, std::string_view reduction);

inline bool is_wide(const Type& type) { return type.count() >= (int64_t{1} << 30); }
inline int64_t divided_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

}  // namespace transom::gpu
