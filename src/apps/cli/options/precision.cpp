// SPDX-License-Identifier: Apache-2.0
// --dtype, --quantization and --activations.
#include "models/precision.h"

#include "apps/cli/command.h"
#include "base/error.h"
#include "transom/model.h"

namespace transom {

void PrecisionOptions::add_to(Command& command) {
  command.options.push_back({.name = "--dtype", .value = &dtype, .help = kDtypeHelp, .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--quantization", .value = &quantization, .help = kQuantizationHelp, .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--activations",
       .value = &activations,
       .help = "precision of activations in products with quantized weights: float32; int8 where the "
               "format allows; float8 of checkpoints in f8_e4m3fn, for GPUs that multiply it; by default " +
               activations,
       .group = kDeviceGroup});
}

void PrecisionOptions::apply_to(LoadOptions& load) const {
  if (activations != "float32" && activations != "int8" && activations != "float8")
    fail(ErrorKind::kUsage, "--activations: expected float32, int8 or float8, found {}", quoted(activations));
  load.dtype = OneOf<ModelDType>::parse(dtype, "--dtype");
  load.quantization = OneOf<Quantization>::parse(quantization, "--quantization");
  load.activations = activations == "int8" ? "fastest" : activations;
}

}  // namespace transom
