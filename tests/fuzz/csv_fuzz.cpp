// SPDX-License-Identifier: Apache-2.0
// CSV, TSV and lines of text: the first byte chooses, the rest is the file.
#include <cstddef>
#include <cstdint>

#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr const char* kNames[] = {"fuzz.csv", "fuzz.tsv", "fuzz.txt"};
  transom::read_rows(kNames[data[0] % 3], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
