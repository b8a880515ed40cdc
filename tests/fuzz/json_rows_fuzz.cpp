// SPDX-License-Identifier: Apache-2.0
// JSON lines, arrays of objects, and SQuAD's object around an array.
#include <cstddef>
#include <cstdint>

#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  transom::read_rows("fuzz.jsonl", {reinterpret_cast<const char*>(data), size});
  return 0;
}
