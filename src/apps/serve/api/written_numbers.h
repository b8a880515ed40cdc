// SPDX-License-Identifier: Apache-2.0
// Numbers of f32 in answers: the shortest decimal that reads back as the same f32, as servers written in Rust give it.
// A double would show digits that say nothing ("0.12345679104328156"). Of a thousand numbers one or two keep those,
// since the library that writes JSON does not find the shortest form of all doubles.
#pragma once

#include <vector>

#include "base/json/json.h"

namespace transom::serve {

// What is not finite is null.
Json written(float value);
Json written(const std::vector<float>& values);
Json written(const std::vector<std::vector<float>>& rows);
// A score that was computed in double from f32: the digits of the nearest f32.
inline Json written_score(double value) { return written(static_cast<float>(value)); }

}  // namespace transom::serve
