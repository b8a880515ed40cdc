// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/written_numbers.h"

#include <charconv>
#include <cmath>

namespace transom::serve {

// The double that is nearest to the decimal is written with these digits again.
Json written(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

Json written(const std::vector<float>& values) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().reserve(values.size());
  for (const float value : values) list.push_back(written(value));
  return list;
}

Json written(const std::vector<std::vector<float>>& rows) {
  Json list = Json::array();
  for (const std::vector<float>& row : rows) list.push_back(written(row));
  return list;
}

}  // namespace transom::serve
