// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/files/files.h"
#include "models/onnx/proto/model.h"

namespace transom::onnx {

// Maps an ONNX file and reads it. Tensors stay in the mapped file; those that the file keeps outside of itself
// (external data) are mapped from files beside it, which must lie in the same directory or below it. The file is
// hostile: lengths are checked before reading, sizes before allocation, graphs nest at most 16 deep, and a link or a
// path that leaves the directory is refused. Errors are one line and begin with the path.
Model read_model(const fs::path& path);

// The same of bytes in memory, which `owner` keeps alive; external data is looked for in `directory`, and refused where
// that is empty.
Model parse_model(std::string_view bytes, const std::string& where, std::shared_ptr<const void> owner,
                  const fs::path& directory = {});

}  // namespace transom::onnx
