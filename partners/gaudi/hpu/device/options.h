// SPDX-License-Identifier: Apache-2.0
// What the environment says, with the names and meanings that users of Gaudi know.
#pragma once

#include <cstddef>
#include <string>

namespace transom::hpu {

struct Options {
  bool int64 = false;         // PT_ENABLE_INT64_SUPPORT=1: int64 kernels instead of int32 ones with range checks
  bool eager = false;         // PT_HPU_LAZY_MODE=0: graphs of few nodes are compiled quickly rather than well
  std::string recipe_folder;  // PT_HPU_RECIPE_CACHE_CONFIG=folder[,delete[,megabytes]]: recipes are kept on disk there
  bool empty_recipe_folder = false;
  size_t recipe_folder_megabytes = 0;  // 0: no limit

  // Throws Failure where a variable is not understood.
  static Options from_environment();
};

}  // namespace transom::hpu
