// SPDX-License-Identifier: Apache-2.0
// One kernel as a file of the cache: what it is the code of, and the code. Nothing of a file is believed: a reader
// takes it only if every length fits, the checksum is right, and it says that it holds the very kernel that is looked
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom::cpu::codegen {

struct Code {
  std::string bytes;  // position-independent
  size_t entry = 0;   // where the kernel begins in it
};

constexpr size_t kLargestImage = 1 << 20;

uint64_t hash_bytes(std::string_view bytes, uint64_t seed);

// `target`: what code must fit, see target(). `key`: the kernel's content: its text.
std::string encode_image(std::string_view target, std::string_view key, const Code& code);
std::optional<Code> decode_image(std::string_view file, std::string_view target, std::string_view key);

}  // namespace transom::cpu::codegen
