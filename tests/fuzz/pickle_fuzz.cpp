// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pickle, without the archive around it.
#include <cstddef>
#include <cstdint>

#include "files/checkpoint/pickle.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    transom::read_pickle(std::as_bytes(std::span(data, size)), "fuzz.pkl");
  } catch (const transom::Error&) {
  }
  return 0;
}
