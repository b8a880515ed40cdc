// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "poplar/Type.hpp"

namespace poputil {

// "Scale<float,int>" of templateVertex("Scale", FLOAT, INT).
template <typename... Types>
std::string templateVertex(const std::string& name, const poplar::Type& first, const Types&... rest) {
  std::string text = name + "<" + first.toString();
  ((text += "," + rest.toString()), ...);
  return text + ">";
}

}  // namespace poputil
