// SPDX-License-Identifier: Apache-2.0
#include "base/memory/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace transom {
namespace {

TEST(HugePages, AreZerosThatMayBeWritten) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    const std::shared_ptr<std::byte> memory = huge_pages(bytes);
    ASSERT_TRUE(memory);
    const size_t alignment = bytes >= size_t{2} << 20 ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % alignment, 0u) << bytes;
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(memory.get(), bytes, std::byte{7});  // to the last one
  }
}

TEST(HugePages, RefuseWhatNoMachineHas) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - (size_t{1} << 20), SIZE_MAX / 2}) {
    try {
      huge_pages(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    }
  }
}

}  // namespace
}  // namespace transom
