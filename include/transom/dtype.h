// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace transom {

// Element types; the numbers are those of transom_dtype in device_plugin.h.
enum class DType : int32_t { kBool, kUInt8, kInt8, kInt32, kInt64, kUInt32, kFloat16, kBFloat16, kFloat32, kFloat64 };

size_t size_of(DType dtype);               // bytes of one element
std::string_view name_of(DType dtype);     // "f32", "bf16", "i64", "bool"
DType parse_dtype(std::string_view name);  // also PyTorch's names, "float32"; throws Error for others
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // signed or unsigned; bool is neither

}  // namespace transom
