// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include <algorithm>

#include "data/padding.h"
#include "device/static_shapes.h"
#include "train/model_inputs.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Joins rows of batches whose second axis may differ in length.
class Collected {
 public:
  explicit Collected(std::string name) : name_(std::move(name)) {}

  // The first `rows` of the tensor; what fills the batch up comes behind them.
  void add(const Tensor& tensor, int64_t rows) {
    Part part{tensor.shape(), cast(tensor, DType::kFloat32).to_vector<float>()};
    part.values.resize(part.values.size() / static_cast<size_t>(part.shape[0]) * static_cast<size_t>(rows));
    part.shape[0] = rows;
    parts_.push_back(std::move(part));
  }

  Predictions::Array join() const {
    Shape shape = parts_[0].shape;
    shape[0] = 0;
    for (const Part& part : parts_) {
      shape[0] += part.shape[0];
      if (shape.size() > 1) shape[1] = std::max(shape[1], part.shape[1]);
    }
    Predictions::Array result{name_, shape, {}};
    for (const Part& part : parts_) {
      const int64_t inner = part.shape.size() > 2 ? elements(Shape(part.shape.begin() + 2, part.shape.end())) : 1;
      const int64_t width = (part.shape.size() > 1 ? part.shape[1] : 1) * inner,
                    full = (shape.size() > 1 ? shape[1] : 1) * inner;
      for (int64_t row = 0; row < part.shape[0]; ++row) {
        result.values.insert(result.values.end(), part.values.begin() + row * width,
                             part.values.begin() + (row + 1) * width);
        result.values.insert(result.values.end(), static_cast<size_t>(full - width), static_cast<float>(kIgnoredLabel));
      }
    }
    return result;
  }

 private:
  struct Part {
    Shape shape;
    std::vector<float> values;
  };
  std::string name_;
  std::vector<Part> parts_;
};

}  // namespace

Predictions evaluate_model(const TrainStep& step, const TrainingData& data, int64_t batch_size,
                           const OutputFilter& keep) {
  const NoGradient evaluation_only;
  Predictions result;
  std::vector<std::pair<std::string, Collected>> outputs;
  Collected token_labels("labels");
  bool has_token_labels = false;
  double loss_sum = 0;
  bool has_loss = false;
  for (int64_t first = 0; first < data.rows; first += batch_size) {
    std::vector<int64_t> rows;
    for (int64_t row = first; row < std::min(data.rows, first + batch_size); ++row) rows.push_back(row);
    Batch batch = data.batch(rows);
    if (data.augment) data.augment(batch, TrainingData::kEvaluationDraw + static_cast<uint64_t>(first / batch_size));
    const auto count = static_cast<int64_t>(rows.size());
    const bool filled = count < batch_size && first > 0 && wants_static_shapes() && fill_up(batch, batch_size);
    const auto rows_of = [&](const Tensor& tensor) { return filled ? count : tensor.dim(0); };
    const NamedTensors inputs = to_inputs(batch);
    NamedTensors given;
    Tensor loss;
    const auto has = [&](std::string_view name) { return inputs.find(name).defined(); };
    // Pictures and their captions are compared with each other.
    const bool pairs = has("pixel_values") && has("input_ids");
    if (pairs || has("labels") || has("start_positions")) loss = step.loss_of(inputs, {}, &given);
    else given = step.forward(inputs);
    if (keep) given = keep(given);
    std::vector<Tensor> wanted;
    if (loss.defined()) wanted.push_back(loss);
    for (const auto& [name, tensor] : given.items()) wanted.push_back(tensor);
    eval(wanted);
    if (loss.defined()) {
      has_loss = true;
      loss_sum += static_cast<double>(loss.item<float>()) * static_cast<double>(rows.size());
    }
    for (const auto& [name, tensor] : given.items()) {
      if (name == "loss" || tensor.rank() == 0) continue;
      auto place =
          std::find_if(outputs.begin(), outputs.end(), [&, n = name](const auto& item) { return item.first == n; });
      if (place == outputs.end()) place = outputs.insert(outputs.end(), {name, Collected(name)});
      place->second.add(tensor, rows_of(tensor));
    }
    if (filled && !batch.labels.empty()) batch.labels.resize(rows.size());
    result.labels.insert(result.labels.end(), batch.labels.begin(), batch.labels.end());
    result.label_values.insert(result.label_values.end(), batch.label_values.begin(), batch.label_values.end());
    if (batch.sequences.contains("labels")) {
      token_labels.add(inputs.at("labels"), rows_of(inputs.at("labels")));
      has_token_labels = true;
    }
    result.rows += static_cast<int64_t>(rows.size());
  }
  for (const auto& [name, collected] : outputs) result.outputs.push_back(collected.join());
  if (has_token_labels) {
    const Predictions::Array joined = token_labels.join();
    result.labels.assign(joined.values.begin(), joined.values.end());
  }
  if (has_loss && data.rows > 0) result.loss = loss_sum / static_cast<double>(data.rows);
  return result;
}

}  // namespace transom
