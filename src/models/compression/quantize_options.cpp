// SPDX-License-Identifier: Apache-2.0
#include "models/compression/quantize_options.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_type.h"
#include "models/compression/gguf/gguf_model.h"
#include "models/records.h"
#include "transom/model.h"

namespace transom {
namespace {

std::string name_of_bits(int64_t bits) { return bits == kBitsByLayer ? "auto" : std::to_string(bits); }

}  // namespace

std::string gguf_type_of(const QuantizeOptions& options) {
  return !options.type.empty() ? options.type : options.bits == 8 ? "q8_0" : "q4_K_M";
}

void check_quantize_options(const QuantizeOptions& options) {
  const std::vector<std::string> methods{"rtn", "gptq", "awq", "smoothquant", "static"};
  if (std::find(methods.begin(), methods.end(), options.method) == methods.end())
    fail(ErrorKind::kUsage, "--method: expected {}, found {}", fmt::join(methods, ", "), quoted(options.method));
  if (options.method == "static") {
    if (options.bits != 8 || options.format != "compressed-tensors")
      fail(ErrorKind::kUsage, "--bits, --format: static has 8 bits and compressed-tensors, found {} and {}",
           name_of_bits(options.bits), options.format);
    if (options.inputs.empty())
      fail(ErrorKind::kUsage, "--calibration_file: static needs pictures, texts or tensors, whose ranges it keeps");
    return;
  }
  if (options.method != "rtn" && options.calibration_file.empty())
    fail(ErrorKind::kUsage, "--calibration_file: {} needs a text", options.method);
  if (options.method == "awq" && options.bits != 4)
    fail(ErrorKind::kUsage, "--bits: --method awq has 4, found {}", name_of_bits(options.bits));
  if (options.method == "smoothquant" && (options.bits != 8 || options.format != "compressed-tensors"))
    fail(ErrorKind::kUsage, "--bits, --format: smoothquant has 8 bits and compressed-tensors, found {} and {}",
         name_of_bits(options.bits), options.format);
  if (options.act_order && (options.method != "gptq" || options.format != "gptq"))
    fail(ErrorKind::kUsage, "--act_order: is for --method gptq with --format gptq");
  if (options.calibration_samples < 1 || options.calibration_length < 2 || !(options.max_memory > 0))
    fail(ErrorKind::kUsage, "--calibration_samples, --calibration_length, --max_memory: found {}, {}, {}",
         options.calibration_samples, options.calibration_length, options.max_memory);
  if (options.bits != 4 && options.bits != 8 && options.bits != kBitsByLayer)
    fail(ErrorKind::kUsage, "--bits: expected 4, 8 or auto, found {}", options.bits);
  if (options.bits == kBitsByLayer) {
    if (options.format != "compressed-tensors" || (options.method != "rtn" && options.method != "gptq"))
      fail(ErrorKind::kUsage,
           "--bits: auto is for --method rtn or gptq with --format compressed-tensors, found {} and {}", options.method,
           options.format);
    if (!(options.target_bits >= 4 && options.target_bits <= 16))
      fail(ErrorKind::kUsage, "--target_bits: expected 4 to 16, found {}", options.target_bits);
  }
  if (options.group_size != -1 && (options.group_size < 8 || options.group_size % 8 != 0))
    fail(ErrorKind::kUsage, "--group_size: expected -1 or a multiple of 8, found {}", options.group_size);
  if (options.format == "gguf") {
    if (options.method != "rtn")
      fail(ErrorKind::kUsage, "--method: gguf is written with rtn, found {}", options.method);
    check_gguf_type(gguf_type_of(options));
  } else if (!options.type.empty()) {
    fail(ErrorKind::kUsage, "--type: is for --format gguf, found {}", options.format);
  }
  if (options.format == "awq" && options.bits != 4)
    fail(ErrorKind::kUsage, "--bits: awq has 4, found {}", options.bits);
}

void check_quantized_format(const Model& model, QuantizedFormat format, const QuantizeOptions& options) {
  const std::string type = model_type_of(model.config(), model.architecture());
  const auto& parameters = model.parameters();
  const bool turned = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return parameter->use == Parameter::Use::kTransposedLinear;
  });
  if (turned && format != QuantizedFormat::kGptq)
    fail(ErrorKind::kUnsupported,
         "--format: {} has no codes for layers that hold their weights [inputs, outputs], as {} does; expected gptq or "
         "gguf",
         options.format, type);
  const Family* family = find_family(model.config());
  if (family && *family->weights.opens_no_codes && format != QuantizedFormat::kCompressedTensors)
    fail(ErrorKind::kUnsupported, "--format: Transformers opens no {} of {}; expected compressed-tensors{}",
         options.format, type, *family->foreign.gguf ? " or gguf" : "");
  const FamilyInputs& inputs = inputs_of(model);
  if (format == QuantizedFormat::kGptq && std::none_of(inputs.begin(), inputs.end(), [](const FamilyInput& input) {
        return input.kind == FamilyInput::Kind::kTokens;
      }))
    fail(ErrorKind::kUnsupported,
         "--format: gptq is read of models of texts, and {} reads {}; expected compressed-tensors", type,
         inputs.at(0).name);
}

}  // namespace transom
