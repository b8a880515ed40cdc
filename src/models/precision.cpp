// SPDX-License-Identifier: Apache-2.0
#include "models/precision.h"

#include "base/error.h"

namespace transom {

std::optional<DType> parse_precision(const std::string& name, const std::string& where) {
  if (name == "auto") return std::nullopt;
  if (name == "float32" || name == "fp32" || name == "f32") return DType::kFloat32;
  if (name == "bfloat16" || name == "bf16") return DType::kBFloat16;
  if (name == "float16" || name == "fp16" || name == "f16") return DType::kFloat16;
  fail(ErrorKind::kUsage, "{}: expected auto, float32, bfloat16 or float16, found {}", where, quoted(name));
}

void check_quantization(const std::string& name, const std::string& where) {
  for (const char* known : {"none", "int8", "int8_channel", "nf4", "fp4", "decompressed"})
    if (name == known) return;
  fail(ErrorKind::kUsage, "{}: expected none, int8, int8_channel, nf4, fp4 or decompressed, found {}", where,
       quoted(name));
}

void check_activations(const std::string& name, const std::string& where) {
  for (const char* known : {"float32", "static", "int8", "fastest", "float8"})
    if (name == known) return;
  fail(ErrorKind::kUsage, "{}: expected float32, static, int8, fastest or float8, found {}", where, quoted(name));
}

std::string name_of_precision(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace transom
