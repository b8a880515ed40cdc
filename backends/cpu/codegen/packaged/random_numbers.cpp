// SPDX-License-Identifier: Apache-2.0
// LLVM draws the names of temporary files by arc4random where it finds one, and glibc has it from 2.36 on. This one
// keeps packages fit for older systems (Ubuntu 22.04). <stdlib.h> is left out, since it declares another one.
#include <sys/random.h>

#include <cstdint>

extern "C" uint32_t arc4random() {
  uint32_t number = 0;
  // Fewer bytes than asked for come only from calls of more than 256; without any, names are less random, no more.
  [[maybe_unused]] const ssize_t given = getrandom(&number, sizeof(number), 0);
  return number;
}
