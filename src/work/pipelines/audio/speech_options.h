// SPDX-License-Identifier: Apache-2.0
// What the ways of speaking a text share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "work/pipelines/pipeline.h"

namespace transom {

// Those of all ways, or the ones of these names.
TaskParameters speech_parameters();
TaskParameters speech_parameters(std::initializer_list<std::string_view> names);

double speed_option(const TaskOptions& options);
// A text of a size that is spoken.
const std::string& spoken_text(const TaskInput& input);

}  // namespace transom
