// SPDX-License-Identifier: Apache-2.0
// Pickles, as far as a state dict of tensors needs them. Nothing is ever imported or called: the few names that such
// files hold are known here, and all others are refused.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace transom {

struct PickleValue;
using PickleList = std::vector<PickleValue>;
using PickleDict = std::vector<std::pair<PickleValue, PickleValue>>;

// A name of a module ("torch FloatStorage").
struct PickleGlobal {
  std::string name;
};
// What torch._utils._rebuild_tensor_v2 describes: a window into a storage.
struct PickleTensor {
  std::string storage_type, storage_key;  // "FloatStorage", "0"
  int64_t offset = 0;                     // in elements
  std::vector<int64_t> shape, strides;
};

struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, PickleGlobal, PickleTensor,
               std::shared_ptr<PickleList>, std::shared_ptr<PickleDict>>
      value;
  bool is_tuple = false;
};

PickleValue read_pickle(std::span<const std::byte> bytes, const std::string& where);

}  // namespace transom
