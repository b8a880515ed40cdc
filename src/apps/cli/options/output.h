// SPDX-License-Identifier: Apache-2.0
// What the ending of an output's name says.
#pragma once

#include <string>

namespace transom {

// The format of model files with this ending: "gguf", "onnx", "safetensors"; "pickle" for .bin, .pt and .pth; empty for
// others, which are directories.
std::string format_of_file_name(const std::string& output);

// Refuses the name of a file where a command writes a directory: a directory q4.gguf is never what is meant.
void expect_directory_name(const std::string& output, const std::string& command);

}  // namespace transom
