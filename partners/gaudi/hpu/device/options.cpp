// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/options.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "hpu/device/error.h"

namespace transom::hpu {
namespace {

bool flag(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  if (!value || !*value) return otherwise;
  if (!std::strcmp(value, "1") || !std::strcmp(value, "true")) return true;
  if (!std::strcmp(value, "0") || !std::strcmp(value, "false")) return false;
  fail(TRANSOM_INVALID_ARGUMENT, "{}: expected 0 or 1, found '{}'", name, value);
}

}  // namespace

Options Options::from_environment() {
  Options options;
  options.int64 = flag("PT_ENABLE_INT64_SUPPORT", false);
  options.eager = !flag("PT_HPU_LAZY_MODE", true);
  const char* cache = std::getenv("PT_HPU_RECIPE_CACHE_CONFIG");
  if (!cache || !*cache) return options;
  const std::string text = cache;
  const size_t first = text.find(','), second = first == text.npos ? text.npos : text.find(',', first + 1);
  options.recipe_folder = text.substr(0, first);
  if (first != text.npos) {
    const std::string word = text.substr(first + 1, second == text.npos ? text.npos : second - first - 1);
    options.empty_recipe_folder = word == "True" || word == "true" || word == "1";
  }
  if (second != text.npos) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + second + 1, end, options.recipe_folder_megabytes);
    if (error != std::errc() || stop != end)
      fail(TRANSOM_INVALID_ARGUMENT, "PT_HPU_RECIPE_CACHE_CONFIG: expected folder,delete,megabytes, found '{}'", text);
  }
  return options;
}

}  // namespace transom::hpu
