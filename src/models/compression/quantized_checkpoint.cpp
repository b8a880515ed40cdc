// SPDX-License-Identifier: Apache-2.0
#include "models/compression/quantized_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/blocks/awq_activations.h"
#include "files/blocks/gptq_config.h"
#include "files/blocks/rounded_matrix.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/model_type.h"
#include "models/compression/calibration/calibrated_layers.h"
#include "models/compression/checkpoint_parts.h"
#include "models/compression/gptq/linear_rows.h"
#include "models/compression/vocabulary_heads.h"
#include "models/loading/weights/packed_weights.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr std::string_view kWeight = ".weight";

double relative_error(const BlockMatrix& matrix, const std::vector<float>& exact) {
  const auto depth = static_cast<size_t>(matrix.layout().depth);
  std::vector<float> row(depth);
  double error = 0, size = 0;
  for (size_t r = 0; r < static_cast<size_t>(matrix.layout().rows); ++r) {
    matrix.dequantise_row(static_cast<int64_t>(r), row.data());
    for (size_t k = 0; k < depth; ++k) {
      const double value = exact[r * depth + k], rest = value - row[k];
      error += rest * rest, size += value * value;
    }
  }
  return size > 0 ? std::sqrt(error / size) : 0;
}

int64_t bytes_of(const NamedViews& tensors) {
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) bytes += static_cast<int64_t>(tensors[i].second.bytes.size());
  return bytes;
}

std::vector<std::string> names_of(const std::vector<QuantizeReport::Layer>& layers) {
  std::vector<std::string> names;
  for (const QuantizeReport::Layer& layer : layers) names.push_back(layer.name);
  return names;
}

class QuantizedCheckpoint {
 public:
  QuantizedCheckpoint(const Model& model, const CalibrationTexts& texts, QuantizedFormat format, std::string source,
                      const QuantizeOptions& options)
      : model_(model),
        texts_(texts),
        format_(format),
        source_(std::move(source)),
        options_(options),
        type_(model_type_of(model.config())),
        parameters_(model.parameters()) {
    parameters_.insert(parameters_.end(), model.buffers().begin(), model.buffers().end());
    for (const auto& parameter : parameters_) linear_ += is_linear_matrix(*parameter);
    if (linear_ == 0) fail("{}: holds no linear layers that can be quantised", source_);
  }

  QuantizeReport write(const std::string& output) {
    fit_layers();
    for (const auto& parameter : parameters_) add(*parameter);
    if (report_.layers.empty())
      fail("{}: no linear layer fits {} in groups of {}; try another --group_size", source_,
           options_.bits == kBitsByLayer ? "4 and 8 bits" : fmt::format("{} bits", options_.bits), options_.group_size);
    ignore_vocabulary_heads(model_, ignored_);
    report_.bytes_after = bytes_of(tensors_);
    make_directories(output);
    save_checkpoint(output, tensors_, uint64_t{5} << 30);
    write_configurations(model_, quantization_config(), output);
    return std::move(report_);
  }

 private:
  // Readers of GPTQ look for codes in the blocks alone; those of AWQ leave modules whose names end like one that stays,
  // as `pre_classifier` beside `classifier`.
  bool gets_codes(const Parameter& weight) const {
    return is_linear_matrix(weight) && weight.name.ends_with(kWeight) &&
           (format_ == QuantizedFormat::kCompressedTensors || is_in_block(weight.name));
  }

  // Those that have codes of the format at all widths that may be chosen.
  std::vector<std::shared_ptr<Parameter>> fitting_weights() const {
    std::vector<std::shared_ptr<Parameter>> weights;
    const int bits = options_.bits == kBitsByLayer ? 8 : static_cast<int>(options_.bits);
    const bool whole = options_.method == "smoothquant" || options_.group_size < 0;
    for (const auto& parameter : parameters_) {
      if (!gets_codes(*parameter)) continue;
      const auto [rows, depth] = extents_by_output(*parameter);
      if (can_write_codes({.rows = rows, .depth = depth, .bits = bits, .group = whole ? depth : options_.group_size},
                          format_))
        weights.push_back(parameter);
    }
    return weights;
  }

  // What the texts say of the layers: how many bits each gets, and codes that fit what it reads.
  void fit_layers() {
    if (options_.method == "rtn" && options_.bits != kBitsByLayer) return;
    const std::vector<std::shared_ptr<Parameter>> weights = fitting_weights();
    if (options_.bits == kBitsByLayer)
      choose_bits(layer_sensitivities(model_, weights, texts_.calibration, options_.group_size));
    if (options_.method == "rtn") return;
    report_.calibration_rows = static_cast<int64_t>(texts_.calibration.size());
    calibrated_ = calibrated_layers(model_, weights, texts_.calibration, options_, layer_bits_);
    report_.layers = calibrated_.errors;
  }

  void choose_bits(const std::vector<LayerSensitivity>& losses) {
    layer_bits_ = chosen_bits(losses, options_.target_bits);
    double bits = 0, count = 0;
    for (const LayerSensitivity& layer : losses) {
      const auto size = static_cast<double>(layer.weights);
      bits += size * (layer_bits_[layer.name] == 8 ? layer.bits_of_8 : layer.bits_of_4), count += size;
    }
    if (count > 0) report_.mean_bits = bits / count;
  }

  int bits_of(const std::string& module) const {
    const auto found = layer_bits_.find(module);
    return found != layer_bits_.end() ? found->second : options_.bits == 8 ? 8 : 4;
  }

  // The tensors of a parameter: codes, or its numbers as they are.
  void add(const Parameter& parameter) {
    const TensorView exact = bytes_of_tensor(parameter.value);
    report_.bytes_before += static_cast<int64_t>(exact.bytes.size());
    const bool is_matrix = parameter.value.rank() == 2 && parameter.name.ends_with(kWeight);
    const std::string module = parameter.name.substr(0, parameter.name.size() - (is_matrix ? kWeight.size() : 0));
    if (const std::string scales = format_ == QuantizedFormat::kAwq ? awq_activation_scales(type_, module) : "";
        is_matrix && !scales.empty())
      tensors_.emplace_back(scales, bytes_of_tensor(full({parameter.value.dim(0)}, 1, DType::kFloat16)));
    if (!gets_codes(parameter)) {
      if (is_matrix && (is_linear_matrix(parameter) || parameter.name.find("embed") == std::string::npos))
        ignored_.push_back(module);
      tensors_.emplace_back(parameter.name, exact);
    } else if (const auto found = calibrated_.matrices.find(module); found != calibrated_.matrices.end()) {
      write_codes(*found->second, format_, module, tensors_);
    } else {
      if (!add_rounded(parameter, module)) {
        tensors_.emplace_back(parameter.name, exact);
        ignored_.push_back(module), report_.kept.push_back(module);
      }
      if (options_.on_layer && options_.method == "rtn") options_.on_layer(++done_, linear_, module);
    }
  }

  // False where the format has no codes for it.
  bool add_rounded(const Parameter& parameter, const std::string& module) {
    const LinearRows w = rows_by_output(parameter);
    const int64_t group = options_.group_size > 0 ? options_.group_size : w.depth;
    const auto matrix =
        rounded_matrix(w.numbers.data(), w.rows, w.depth, {.bits = bits_of(module), .group = group, .search = true});
    if (options_.method == "smoothquant" || !can_write_codes(matrix->layout(), format_)) return false;
    write_codes(*matrix, format_, module, tensors_);
    report_.layers.push_back({module, relative_error(*matrix, w.numbers), matrix->layout().bits});
    return true;
  }

  Json quantization_config() const {
    const int bits = static_cast<int>(options_.bits);
    const int64_t group = std::max<int64_t>(options_.group_size, 0);  // 0: whole rows
    if (options_.method == "smoothquant") return w8a8_config_of(ignored_);
    if (!layer_bits_.empty()) return mixed_config_of(layer_bits_, group, ignored_);
    if (format_ == QuantizedFormat::kGptq)
      return gptq_config_of(bits, options_.group_size, options_.act_order, names_of(report_.layers), ignored_);
    return quantization_config_of(format_, bits, group, ignored_);
  }

  const Model& model_;
  const CalibrationTexts& texts_;
  const QuantizedFormat format_;
  const std::string source_;
  const QuantizeOptions& options_;
  const std::string type_;
  std::vector<std::shared_ptr<Parameter>> parameters_;  // and buffers
  int64_t linear_ = 0, done_ = 0;
  std::map<std::string, int> layer_bits_;  // by module; empty: all have as many
  CalibratedLayers calibrated_;
  NamedViews tensors_;
  std::vector<std::string> ignored_;  // modules
  QuantizeReport report_;
};

}  // namespace

QuantizeReport write_quantized_checkpoint(const Model& model, const CalibrationTexts& texts, QuantizedFormat format,
                                          const std::string& source, const std::string& output,
                                          const QuantizeOptions& options) {
  return QuantizedCheckpoint(model, texts, format, source, options).write(output);
}

}  // namespace transom
