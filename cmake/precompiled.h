// SPDX-License-Identifier: Apache-2.0
// Headers that most sources include, parsed once a target: about a quarter of the time of a build from nothing. Every
// source still includes what it uses: a build with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows what is missing.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
