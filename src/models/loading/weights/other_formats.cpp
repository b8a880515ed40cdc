// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/other_formats.h"

#include <vector>

namespace transom {
namespace {

std::vector<ModelFormat>& formats() {
  static std::vector<ModelFormat> instance;
  return instance;
}

}  // namespace

RegisterModelFormat::RegisterModelFormat(const ModelFormat& format) { formats().push_back(format); }

std::unique_ptr<Model> load_other_format(const fs::path& path, const LoadOptions& options) {
  for (const ModelFormat& format : formats())
    if (format.recognises(path)) return format.load(path, options);
  return nullptr;
}

}  // namespace transom
