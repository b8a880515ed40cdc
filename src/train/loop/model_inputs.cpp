// SPDX-License-Identifier: Apache-2.0
#include "train/loop/model_inputs.h"

#include "io/safetensors.h"
#include "transom/ops.h"

namespace transom {

NamedTensors load_inputs(const std::filesystem::path& path) {
  NamedTensors result;
  for (const auto& [name, view] : SafetensorsFile::open(path).tensors()) {
    const Tensor tensor = Tensor::from_bytes(view.bytes, {view.dtype, view.shape});
    result.set(name, is_integer(view.dtype) ? cast(tensor, DType::kInt64) : tensor);
  }
  return result;
}

NamedTensors to_inputs(const Batch& batch) {
  NamedTensors result;
  int64_t rows = static_cast<int64_t>(batch.labels.size());
  for (const auto& [name, padded] : batch.sequences) {
    rows = batch.choices > 0 ? padded.rows / batch.choices : padded.rows;
    const Shape shape = batch.choices > 0 ? Shape{rows, batch.choices, padded.length} : Shape{rows, padded.length};
    result.set(name, Tensor::from(padded.values, shape));
  }
  for (const auto& [name, array] : batch.arrays) {
    rows = array.shape.at(0);
    result.set(name, Tensor::from(array.values, array.shape));
  }
  for (const auto& [name, numbers] : batch.numbers) result.set(name, Tensor::from(numbers, {rows}));
  if (!batch.labels.empty()) result.set("labels", Tensor::from(batch.labels, {rows}));
  if (!batch.label_values.empty()) {
    const auto width = static_cast<int64_t>(batch.label_values.size()) / rows;
    result.set("labels", Tensor::from(batch.label_values, width == 1 ? Shape{rows} : Shape{rows, width}));
  }
  return result;
}

}  // namespace transom
