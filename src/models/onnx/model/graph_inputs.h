// SPDX-License-Identifier: Apache-2.0
// What the models that ONNX files make share: how they find their configuration, and how inputs become a graph's.
#pragma once

#include "base/files/files.h"
#include "files/config/config.h"
#include "models/onnx/import/run/value.h"
#include "models/onnx/proto/model.h"
#include "transom/model.h"

namespace transom::onnx {

// config.json lies beside the file, or beside the folder onnx/ that holds it. A graph needs none: then it is empty.
Config config_beside(const fs::path& file);

// Ids as i64 or i32, pixels as f32 or f16: whatever the graph declares.
Value converted(const Tensor& given, const ValueInfo& input);

// What a graph's input for keys or values is given where it is not read (a merged decoder's, for a whole text): zeros.
// Errors begin with `where`: extents that are unknown or far too large.
Tensor unread_past(const ValueInfo& input, int64_t rows, const std::string& where);

// Errors: options that ask for another precision than that of the file. LoadOptions::activations is about codes of
// compressed weights alone, so it asks for nothing here.
void check_load_options(const LoadOptions& options, const fs::path& file);

}  // namespace transom::onnx
