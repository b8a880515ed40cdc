// SPDX-License-Identifier: Apache-2.0
// TensorFlow's checkpoints of version 2 (tensorflow/core/util/tensor_bundle): NAME.index, a table of what there is, and
// NAME.data-00000-of-00001 ... with the values.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

struct BundleEntry {
  int64_t dtype = 0;  // of tensorflow.DataType
  std::vector<int64_t> shape;
  uint64_t shard = 0, offset = 0, size = 0;
  uint32_t crc = 0;  // masked CRC-32C of the values
  bool sliced = false;
};
struct BundleIndex {
  uint64_t shards = 0;
  std::vector<std::pair<std::string, BundleEntry>> entries;  // by name
};

// Errors begin with `where`.
BundleIndex parse_bundle_index(std::span<const std::byte> bytes, const std::string& where);

// The variables of NAME.index and its shards for which `wanted` holds, by their names in TensorFlow; views of the
// mapped shards, each checked by its CRC.
NamedViews read_tensor_bundle(const fs::path& index, const std::function<bool(std::string_view)>& wanted);

}  // namespace transom
