// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/model_inputs.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "files/checkpoint/safetensors.h"
#include "models/records.h"
#include "models/shared/decoder.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The number of classes that `labels` of the model counts; nothing where they are something else.
std::optional<int64_t> label_classes(const Model& model) {
  const Architecture* known = find_architecture(model);
  if (!known) return std::nullopt;
  int64_t classes = 0;
  if (has_named_classes(known->head)) {
    classes = class_count(model.config(), known->head);
    if (classes == 1) return std::nullopt;  // a regression
  }
  if (*known->head.labels == HeadLabels::kTokens || *known->head.labels == HeadLabels::kCharacters)
    classes = vocabulary_of(model.config(), known->head);
  return classes > 0 ? std::optional(classes) : std::nullopt;
}

// The rows of the table of an input, whose numbers these are; nothing where nobody knows. Pictures that are read beside
// the tokens may stand at tokens that are never written, behind those of the vocabulary.
std::optional<int64_t> rows_of_table(const Model& model, const FamilyInput& input) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (input.kind == FamilyInput::Kind::kTokens && writer && writer->source_rows() > 0)
    return body_of(model).word_embeddings().weight()->value.dim(0);
  return extent_of(model.config(), input.table);
}

// Ids beyond the tables that they are looked up in, which not every device tells.
void check_ids(const Model& model, const std::string& name, std::span<const int64_t> ids) {
  if (!find_architecture(model)) return;
  const FamilyInputs& inputs = inputs_of(model);
  const auto input =
      std::find_if(inputs.begin(), inputs.end(), [&](const FamilyInput& each) { return each.name == name; });
  if (input == inputs.end()) return;
  const std::optional<int64_t> rows = rows_of_table(model, *input);
  if (!rows) return;
  for (const int64_t id : ids)
    if (id < 0 || id >= *rows)
      fail("{}: {} is no row of the table of {}: expected numbers in [0, {}), its {}", name, id, model.architecture(),
           *rows, fmt::join(input->table.fields, " or "));
}

}  // namespace

void check_labels(const Model& model, std::span<const int64_t> labels) {
  const std::optional<int64_t> classes = label_classes(model);
  if (!classes) return;
  for (const int64_t label : labels)
    if (label != kIgnoredLabel && (label < 0 || label >= *classes))
      fail("labels: {} is no class of {}: expected numbers in [0, {}), or {} for what is not counted", label,
           model.architecture(), *classes, kIgnoredLabel);
}

NamedTensors load_inputs(const std::filesystem::path& path) {
  NamedTensors result;
  for (const auto& [name, view] : SafetensorsFile::open(path).tensors()) {
    const Tensor tensor = Tensor::from_bytes(view.bytes, {view.dtype, view.shape});
    result.set(name, is_integer(view.dtype) ? cast(tensor, DType::kInt64) : tensor);
  }
  return result;
}

NamedTensors to_inputs(const Batch& batch, const Model& model, BatchPadding padding) {
  check_labels(model, batch.labels);
  NamedTensors result;
  int64_t rows = static_cast<int64_t>(batch.labels.size());
  for (const auto& [name, padded] : batch.sequences) {
    if (name == "labels") check_labels(model, padded.values);
    else check_ids(model, name, padded.values);
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
    const auto count = static_cast<int64_t>(batch.label_values.size());
    if (rows < 1 || count % rows != 0)
      fail("a batch: expected inputs beside its labels, found {} labels for {} rows of inputs", count, rows);
    const int64_t width = count / rows;
    result.set("labels", Tensor::from(batch.label_values, width == 1 ? Shape{rows} : Shape{rows, width}));
  }
  add_places(batch, padding, result);
  return result;
}

}  // namespace transom
