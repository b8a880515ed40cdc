// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/model/graph_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/precision.h"
#include "transom/ops.h"

namespace transom::onnx {

Config config_beside(const fs::path& file) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (const fs::path& folder : {directory, directory / ".."})
    if (file_exists(folder / "config.json")) return Config::read(folder / "config.json");
  return Config::parse("{}", file.string());
}

Value converted(const Tensor& given, const ValueInfo& input) {
  const Value value = value_of(given);
  if (input.type == ElementType::kUndefined || input.type == value.type) return value;
  return cast_value(value, input.type);
}

void check_load_options(const LoadOptions& options, const fs::path& file) {
  const bool same_type = dtype_of(options.dtype).value_or(DType::kFloat32) == DType::kFloat32;
  if (!same_type || options.quantization != Quantization::kNone)
    fail("{}: another precision of an ONNX file is not supported: it computes in the types that it names",
         file.string());
}

Tensor unread_past(const ValueInfo& input, int64_t rows, const std::string& where) {
  constexpr int64_t kMost = int64_t{1} << 24;  // numbers of one text: the file says how many
  const auto& extents = *input.shape;
  const int64_t heads = extents[1].value, width = extents[3].value;
  if (heads <= 0 || width <= 0 || heads > 4096 || width > 4096)
    fail("{}: input {}: expected [batch, heads, length, size] with numbers of heads and their size", where,
         quoted(input.name));
  const int64_t length = std::clamp<int64_t>(extents[2].value, 1, 4096);
  if (heads * length * width > kMost)
    fail("{}: input {}: {} heads of {} tokens of {} numbers; at most {} numbers are taken", where, quoted(input.name),
         heads, length, width, kMost);
  return zeros({rows, heads, length, width}, DType::kFloat32);
}

}  // namespace transom::onnx
