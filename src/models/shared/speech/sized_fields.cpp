// SPDX-License-Identifier: Apache-2.0
#include "models/shared/speech/sized_fields.h"

#include "base/error.h"

namespace transom {

int64_t sized_field(const Config& config, const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const int64_t value = config.get_int(name, otherwise);
  if (value < least || value > most)
    fail("{}: {}: expected a number from {} to {}, found {}", config.where(), name, least, most, value);
  return value;
}

int64_t window_field(const Config& config, const char* name, int64_t otherwise) {
  const int64_t value = sized_field(config, name, otherwise, 1, 1023);
  if (value % 2 == 0) fail("{}: {}: expected an odd number, found {}", config.where(), name, value);
  return value;
}

double bounded_field(const Config& config, const char* name, double otherwise, double least, double most) {
  const double value = config.get_float(name, otherwise);
  if (!(value >= least && value <= most))
    fail("{}: {}: expected a number from {} to {}, found {}", config.where(), name, least, most, value);
  return value;
}

}  // namespace transom
