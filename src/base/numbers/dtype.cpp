// SPDX-License-Identifier: Apache-2.0
#include "transom/dtype.h"

#include <array>

#include "base/error.h"

namespace transom {
namespace {

struct Description {
  std::string_view name, torch_name;
  size_t size;
};

constexpr std::array<Description, 10> kDescriptions = {{{"bool", "bool", 1},
                                                        {"u8", "uint8", 1},
                                                        {"i8", "int8", 1},
                                                        {"i32", "int32", 4},
                                                        {"i64", "int64", 8},
                                                        {"u32", "uint32", 4},
                                                        {"f16", "float16", 2},
                                                        {"bf16", "bfloat16", 2},
                                                        {"f32", "float32", 4},
                                                        {"f64", "float64", 8}}};

}  // namespace

size_t size_of(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)].name; }

DType parse_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (size_t i = 0; i < kDescriptions.size(); ++i)
    if (name == kDescriptions[i].name || name == kDescriptions[i].torch_name) return static_cast<DType>(i);
  fail("unknown element type {}: expected one of float32, float16, bfloat16, float64, int64, int32, int8, uint8, bool",
       quoted(name));
}

bool is_floating(DType dtype) { return dtype >= DType::kFloat16; }
bool is_integer(DType dtype) { return dtype != DType::kBool && dtype < DType::kFloat16; }

}  // namespace transom
