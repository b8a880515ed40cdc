// SPDX-License-Identifier: Apache-2.0
// The sorted table of LevelDB (doc/table_format.md there), which holds the index of a TensorFlow checkpoint.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace transom {

// Keys and values in their order; values are parts of `bytes`. Blocks are checked by their CRC; compressed ones, which
// TensorFlow does not write, are refused. Errors begin with `where`.
std::vector<std::pair<std::string, std::span<const std::byte>>> parse_leveldb_table(std::span<const std::byte> bytes,
                                                                                    const std::string& where);

}  // namespace transom
