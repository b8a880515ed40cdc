// SPDX-License-Identifier: Apache-2.0
// --dtype and --quantization.
#include "models/precision.h"

#include "cli/command.h"

namespace transom {

void PrecisionOptions::add_to(Command& command) {
  command.options.push_back({.name = "--dtype", .value = &dtype, .help = kDtypeHelp, .group = kDeviceGroup});
  command.options.push_back(
      {.name = "--quantization", .value = &quantization, .help = kQuantizationHelp, .group = kDeviceGroup});
}

void PrecisionOptions::apply_to(LoadOptions& load) const {
  parse_precision(dtype, "--dtype");
  check_quantization(quantization, "--quantization");
  load.dtype = dtype, load.quantization = quantization;
}

}  // namespace transom
