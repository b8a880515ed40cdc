// SPDX-License-Identifier: Apache-2.0
// --dtype and --quantization.
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "transom/ops.h"

namespace transom {

std::string dtype_of_word(const std::string& word) {
  std::string name = word;
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "float32" || name == "fp32" || name == "f32" || name == "float") return "float32";
  if (name == "bfloat16" || name == "bf16") return "bfloat16";
  if (name == "auto") return "float32";  // what checkpoints of every type are computed in
  if (name == "float16" || name == "fp16" || name == "f16" || name == "half") {
    log(LogLevel::kWarning, fmt::format("--dtype {}: not computed in yet; float32 is used", word));
    return "float32";
  }
  fail(ErrorKind::kUsage, "--dtype: expected float32, bfloat16, float16 or auto, found {}", quoted(word));
}

void PrecisionOptions::add_to(Command& command) {
  command.options.push_back({.name = "--dtype", .value = &dtype, .help = kDtypeHelp, .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--quantization", .value = &quantization, .help = kQuantizationHelp, .group = kDeviceGroup});
}

std::shared_ptr<void> PrecisionOptions::apply() const {
  struct Scopes {
    std::optional<Autocast> autocast;
    std::optional<QuantizedLinear> quantized;
  };
  const std::string type = dtype_of_word(dtype);
  if (quantization != "none" && quantization != "int8")
    fail(ErrorKind::kUsage, "--quantization: expected none or int8, found {}", quoted(quantization));
  const auto scopes = std::make_shared<Scopes>();
  if (type == "bfloat16") scopes->autocast.emplace(DType::kBFloat16);
  if (quantization == "int8") scopes->quantized.emplace();
  return scopes;
}

}  // namespace transom
