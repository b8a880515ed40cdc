// SPDX-License-Identifier: Apache-2.0
// GPT-2's writing of bytes as printable characters (Radford et al. 2019), and its pattern of words.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace transom::text {

// The character that stands for each byte.
const std::array<char32_t, 256>& byte_characters();

// Appends the byte that `c` stands for; false if it stands for none.
bool append_byte_of(char32_t c, std::string& bytes);

constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace transom::text
