// SPDX-License-Identifier: Apache-2.0
// Pickles, as far as a state dict of tensors needs them. Nothing is ever imported or called: the few names that such
// files hold are known here, and all others are refused.
#pragma once

#include <cstdint>
#include <deque>
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
  std::vector<int64_t> shape, strides;    // at most 64 each
};

// Small and cheap to copy; what it points to belongs to the Pickle.
struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, const std::string*, const PickleGlobal*, const PickleTensor*,
               PickleList*, PickleDict*>
      value;
};

// A value and all that it holds. The parts lie side by side here, so that a pickle that nests a million lists, or puts
// a list into itself, does no harm.
struct Pickle {
  PickleValue root;
  std::deque<std::string> texts;
  std::deque<PickleGlobal> globals;
  std::deque<PickleTensor> tensors;
  std::deque<PickleList> lists;
  std::deque<PickleDict> dicts;
};

// `size` receives how many bytes it took; others may follow it.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& where, size_t* size = nullptr);

}  // namespace transom
