// SPDX-License-Identifier: Apache-2.0
// --dtype and --quantization.
#include "base/error.h"
#include "cli/command.h"
#include "transom/ops.h"

namespace transom {

void PrecisionOptions::add_to(Command& command) {
  command.options.push_back({"--dtype", &dtype, "float32 or bfloat16 (autocast)"});
  command.options.push_back({"--quantization", &quantization, "none, or int8: linear layers in 8-bit integers"});
}

std::shared_ptr<void> PrecisionOptions::apply() const {
  struct Scopes {
    std::optional<Autocast> autocast;
    std::optional<QuantizedLinear> quantized;
  };
  if (dtype != "float32" && dtype != "bfloat16")
    fail(ErrorKind::kUsage, "--dtype: expected float32 or bfloat16, found {}", quoted(dtype));
  if (quantization != "none" && quantization != "int8")
    fail(ErrorKind::kUsage, "--quantization: expected none or int8, found {}", quoted(quantization));
  const auto scopes = std::make_shared<Scopes>();
  if (dtype == "bfloat16") scopes->autocast.emplace(DType::kBFloat16);
  if (quantization == "int8") scopes->quantized.emplace();
  return scopes;
}

}  // namespace transom
