// SPDX-License-Identifier: Apache-2.0
// Vectors that tell a model whose voice is to speak (speaker embeddings).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace transom {

// The numbers f32 of bytes that hold nothing else, and of a file of NumPy's format, row-major.
std::vector<float> plain_numbers(std::span<const std::byte> bytes, const std::string& where);
std::vector<float> npy_numbers(std::span<const std::byte> bytes, const std::string& where);

// The numbers of a file: an array of NumPy (.npy, f32), the only tensor of a safetensors file, or f32 alone (.bin).
std::vector<float> voice_vector(const fs::path& path);
// The file of a voice beside a model, voices/NAME.npy or its like; without a name the first by name.
fs::path voice_file(const fs::path& folder, const std::string& name);

}  // namespace transom
