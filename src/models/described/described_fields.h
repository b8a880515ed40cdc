// SPDX-License-Identifier: Apache-2.0
// The fields of a configuration that a family file knows.
#pragma once

#include "base/json/json_fwd.h"
#include "models/described/option_values.h"

namespace transom {

// Refuses values other than those of the file's "fixed", and fields that are neither among its "defaults", "aliases",
// "fixed" and "ignored" nor known of every configuration. Each field that is known counts as read.
void check_described_fields(const Json& file, const OptionValues& values);

}  // namespace transom
