// SPDX-License-Identifier: Apache-2.0
// Constants. (iota and random_bits are tile programs.)
#include <cstring>

#include "cpu/kernels/kernel.h"

namespace transom::cpu {
namespace {

Kernel make_constant(const Node& node) {
  const Type type = node.output();
  if (type.count() != 1) fail(TRANSOM_INVALID_ARGUMENT, "expected a scalar, found {}", to_string(type));
  std::byte bytes[8] = {};
  dispatch(type.dtype, [&]<typename T>() {
    const bool integral = node.has("int_value");
    T value = integral ? static_cast<T>(node.integer("int_value"))
                       : static_cast<T>(static_cast<Compute<T>>(node.number("value")));
    if (type.dtype == TRANSOM_BOOL)
      value = static_cast<T>(
          static_cast<Compute<T>>(integral ? node.integer("int_value") != 0 : node.number("value") != 0));
    std::memcpy(bytes, &value, sizeof value);
  });
  const size_t size = type.bytes();
  return {"constant", [=](const Arguments& arguments) { std::memcpy(arguments.outputs[0], bytes, size); }};
}

}  // namespace

void add_generator_kernels(KernelTable& table) { table["constant"] = make_constant; }

}  // namespace transom::cpu
