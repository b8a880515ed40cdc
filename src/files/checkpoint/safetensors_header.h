// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: JSON with type, shape and place of each tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint/tensor_view.h"

namespace transom {

struct SafetensorsHeader {
  struct Entry {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t begin, end;  // bytes within the data
  };
  std::vector<Entry> entries;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

// Reads a header and checks it against the size of the data behind it: types, sizes, places, overlaps, holes, names
// that come twice. Takes time in proportion to the text. Errors begin with `file`.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_size, const std::string& file);

// The header for tensors that lie one after the other in this order.
std::string print_safetensors_header(const std::vector<const NamedViews::value_type*>& tensors,
                                     const std::map<std::string, std::string>& metadata);

// The order in which the format's own library writes element types: wide ones first.
int safetensors_rank(DType dtype);

}  // namespace transom
