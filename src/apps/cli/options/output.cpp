// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/output.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace transom {

std::string format_of_file_name(const std::string& output) {
  std::string ending = std::filesystem::path(output).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (ending == ".gguf" || ending == ".onnx" || ending == ".safetensors") return ending.substr(1);
  return ending == ".bin" || ending == ".pt" || ending == ".pth" ? "pickle" : "";
}

void expect_directory_name(const std::string& output, const std::string& command) {
  const std::string format = format_of_file_name(output);
  if (format.empty()) return;
  std::string instead;
  if (format == "gguf") instead = "; transom quantize MODEL FILE.gguf writes such a file";
  if (format == "onnx" && command != "export") instead = "; transom export MODEL DIRECTORY writes ONNX files";
  if (format == "onnx" && command == "export") instead = "; the files in it are named model.onnx and so on";
  if (format == "safetensors") instead = "; the file in it is named model.safetensors";
  fail(ErrorKind::kUsage, "{}: transom {} writes a directory, and this is the name of a file{}", quoted(output),
       command, instead);
}

}  // namespace transom
