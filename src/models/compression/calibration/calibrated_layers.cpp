// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/calibrated_layers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/half.h"
#include "files/blocks/rounded_matrix.h"
#include "models/compression/calibration/input_scales.h"
#include "models/compression/gptq/gptq.h"
#include "models/compression/gptq/linear_rows.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string module_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

// As compressed-tensors has w8a8: a scale for each row, its largest magnitude / 127.5.
std::shared_ptr<CodedMatrix> by_rows(const std::vector<float>& w, int64_t rows, int64_t depth) {
  auto made = std::make_shared<CodedMatrix>(
      BlockLayout{.rows = rows, .depth = depth, .bits = 8, .group = depth, .inputs_by_token = true});
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = w.data() + r * depth;
    float largest = 0;
    for (int64_t k = 0; k < depth; ++k) largest = std::max(largest, std::fabs(x[k]));
    const float scale = made->scales[static_cast<size_t>(r)] = largest / 127.5f;
    for (int64_t k = 0; k < depth; ++k) {
      const float code = scale > 0 ? std::clamp(std::nearbyint(x[k] / scale), -128.0f, 127.0f) : 0;
      made->codes[static_cast<size_t>(r * depth + k)] = static_cast<uint8_t>(code + 128);
    }
  }
  return made;
}

class Rounder {
 public:
  Rounder(const Model& model, const std::vector<std::shared_ptr<Parameter>>& weights, const QuantizeOptions& options,
          const std::map<std::string, int>& layer_bits)
      : options_(options), layer_bits_(layer_bits), total_(static_cast<int64_t>(weights.size())) {
    for (const auto& parameter : model.parameters()) parameters_[parameter->name] = parameter;
    if (options.method == "gptq") return;
    groups_ = scaled_inputs(model);
    if (options.method == "smoothquant")  // only norms can divide what 8 bits are rounded to
      std::erase_if(groups_, [](const ScaledInputs& group) { return group.maker_is_linear; });
  }

  void round(const LayerInputs& inputs, Parameter& weight) {
    const std::string module = module_of(weight.name);
    const auto [rows, depth, w] = rows_by_output(weight);
    const std::vector<float>& scales = scales_for(module, inputs, depth);
    std::vector<float> scaled = w;
    if (!scales.empty())
      for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= scales[i % static_cast<size_t>(depth)];
    const std::shared_ptr<CodedMatrix> matrix = rounded(module, scaled, rows, depth, inputs, scales);
    std::vector<float> values(w.size()), rest(w.size());
    for (int64_t r = 0; r < rows; ++r) matrix->dequantise_row(r, values.data() + r * depth);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!scales.empty()) values[i] /= scales[i % static_cast<size_t>(depth)];
      rest[i] = values[i] - w[i];
    }
    const Tensor products = Tensor::from(inputs.products, {depth, depth});
    const double error = output_squares(rest, products), size = output_squares(w, products);
    made_.errors.push_back({module, size > 0 ? std::sqrt(std::max(error, 0.0) / size) : 0, matrix->layout().bits});
    set_rows_by_output(weight, {rows, depth, std::move(values)});
    matrices_[module] = matrix;
    if (options_.on_layer) options_.on_layer(++done_, total_, module);
  }

  CalibratedLayers finish() {
    for (const auto& [index, scales] : scales_) divide(groups_[index], scales);
    for (const auto& [module, matrix] : matrices_) made_.matrices[module] = matrix;
    return std::move(made_);
  }

 private:
  // The scales of the inputs that this layer shares with others; made when the first of them is called.
  const std::vector<float>& scales_for(const std::string& module, const LayerInputs& inputs, int64_t depth) {
    static const std::vector<float> kNone;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const ScaledInputs& group = groups_[i];
      if (std::find(group.layers.begin(), group.layers.end(), module) == group.layers.end()) continue;
      if (const auto known = scales_.find(i); known != scales_.end()) return known->second;
      std::vector<std::vector<float>> values;
      for (const std::string& layer : group.layers)
        if (const auto found = parameters_.find(layer + ".weight"); found != parameters_.end())
          values.push_back(rows_by_output(*found->second).numbers);
      std::vector<const std::vector<float>*> all;
      for (const auto& one : values) all.push_back(&one);
      const int64_t size = options_.group_size > 0 ? options_.group_size : depth;
      return scales_[i] = options_.method == "awq" ? awq_scales(inputs, all, size) : smooth_scales(inputs, all);
    }
    return kNone;
  }

  std::shared_ptr<CodedMatrix> rounded(const std::string& module, const std::vector<float>& w, int64_t rows,
                                       int64_t depth, const LayerInputs& inputs,
                                       const std::vector<float>& scales) const {
    const int64_t group = options_.group_size > 0 ? options_.group_size : depth;
    if (options_.method == "smoothquant") return by_rows(w, rows, depth);
    std::vector<float> divided;  // products of the inputs as they will be
    if (!scales.empty()) divided = inputs.products;
    const auto count = static_cast<size_t>(depth);
    for (size_t i = 0; i < divided.size(); ++i) divided[i] /= scales[i / count] * scales[i % count];
    return gptq_matrix(w, rows, depth, scales.empty() ? inputs.products : divided,
                       {.bits = bits_of(module), .group = group, .act_order = options_.act_order});
  }

  int bits_of(const std::string& module) const {
    const auto found = layer_bits_.find(module);
    return found == layer_bits_.end() ? static_cast<int>(options_.bits) : found->second;
  }

  // What makes the inputs gives them divided by the scales.
  void divide(const ScaledInputs& group, const std::vector<float>& scales) {
    const auto divided = [&](const std::string& name) {
      const auto found = parameters_.find(name);
      if (found == parameters_.end()) return;
      Tensor& value = found->second->value;
      std::vector<float> numbers = value.to_vector<float>();
      const size_t each = numbers.size() / scales.size();
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] /= scales[i / each];
      value = cast(Tensor::from(numbers, value.shape()), value.dtype());
    };
    divided(group.maker + ".bias");
    const auto matrix = group.maker_is_linear ? matrices_.find(group.maker) : matrices_.end();
    if (matrix == matrices_.end()) return divided(group.maker + ".weight");
    CodedMatrix& codes = *matrix->second;
    const auto groups = static_cast<size_t>(codes.layout().groups());
    for (size_t i = 0; i < codes.scales.size(); ++i) codes.scales[i] = Float16(codes.scales[i] / scales[i / groups]);
  }

  const QuantizeOptions& options_;
  const std::map<std::string, int>& layer_bits_;
  int64_t total_, done_ = 0;
  std::map<std::string, std::shared_ptr<Parameter>> parameters_;
  std::vector<ScaledInputs> groups_;
  std::map<size_t, std::vector<float>> scales_;
  std::map<std::string, std::shared_ptr<CodedMatrix>> matrices_;
  CalibratedLayers made_;
};

}  // namespace

CalibratedLayers calibrated_layers(const Model& model, const std::vector<std::shared_ptr<Parameter>>& weights,
                                   const std::vector<std::vector<int64_t>>& rows, const QuantizeOptions& options,
                                   const std::map<std::string, int>& layer_bits) {
  Rounder rounder(model, weights, options, layer_bits);
  calibrate(model, rows, weights, [&](const LayerInputs& inputs, Parameter& weight) { rounder.round(inputs, weight); });
  return rounder.finish();
}

std::vector<LayerSensitivity> layer_sensitivities(const Model& model,
                                                  const std::vector<std::shared_ptr<Parameter>>& weights,
                                                  const std::vector<std::vector<int64_t>>& rows, int64_t group_size) {
  std::vector<LayerSensitivity> found;
  const auto measure = [&](const Parameter& weight, const std::vector<float>* products) {
    const auto [count, depth, w] = rows_by_output(weight);
    const int64_t group = group_size > 0 ? group_size : depth;
    constexpr double kScale = 16;  // bits
    const double share = kScale / static_cast<double>(group);
    LayerSensitivity layer{module_of(weight.name), count * depth, 4 + share, 8 + share};
    Tensor weighed;
    if (products) weighed = Tensor::from(*products, {depth, depth});
    for (const int bits : {4, 8}) {
      const auto matrix = rounded_matrix(w.data(), count, depth, {.bits = bits, .group = group, .search = true});
      std::vector<float> rest(w.size());
      for (int64_t r = 0; r < count; ++r) matrix->dequantise_row(r, rest.data() + r * depth);
      double error = 0, size = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        rest[i] -= w[i];
        error += static_cast<double>(rest[i]) * rest[i], size += static_cast<double>(w[i]) * w[i];
      }
      if (products) error = std::max(0.0, output_squares(rest, weighed)), size = output_squares(w, weighed);
      (bits == 4 ? layer.loss_of_4 : layer.loss_of_8) = size > 0 ? error / size : 0;
    }
    found.push_back(std::move(layer));
  };
  if (rows.empty())
    for (const auto& weight : weights) measure(*weight, nullptr);
  else
    calibrate(model, rows, weights,
              [&](const LayerInputs& inputs, Parameter& weight) { measure(weight, &inputs.products); });
  return found;
}

}  // namespace transom
