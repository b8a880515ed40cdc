// SPDX-License-Identifier: Apache-2.0
// The hashes by which the Hub names files.
#pragma once

#include <string>
#include <string_view>

#include "base/files/files.h"

namespace transom {

// Hexadecimal, in small letters.
std::string sha256_of(const fs::path& file);  // of files in large file storage
std::string sha256_of_text(std::string_view text);
// Whether a text is so many digits of this form.
bool is_digest(std::string_view text, size_t digits);
std::string git_blob_sha1_of(const fs::path& file);  // of all others: SHA-1 of "blob <size>\0" and the contents

}  // namespace transom
